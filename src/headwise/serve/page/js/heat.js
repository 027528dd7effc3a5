/** Heat maps on a canvas: one square per weight, in a deeper shade of the accent color for a larger weight. */

/** The functions that redraw the heat maps, by canvas. @type {Map<HTMLCanvasElement, () => void>} */
const heatMaps = new Map();

/**
 * Paint weights from 0 to 1, and from 0 to −1 in the caret's color; masked cells stay empty. The shade is the square
 * root of the weight, so that small weights can be told from zero.
 * @param {HTMLCanvasElement} canvas
 * @param {import("./tensor.js").Tensor} matrix (rows, columns)
 * @param {(row: number, column: number) => boolean} [seen]
 */
export function paint(canvas, matrix, seen = () => true) {
  const [rows, columns] = matrix.shape;
  const draw = () => {
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    if (!context || rows * columns === 0) return;
    const image = context.createImageData(columns, rows);
    const [above, below] = [colorOf(canvas, "color"), colorOf(canvas, "caret-color")];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const index = row * columns + column;
        const value = matrix.data[index];
        const shade = seen(row, column) ? Math.sqrt(Math.min(1, Math.abs(value))) : 0;
        image.data.set([...(value < 0 ? below : above), Math.round(255 * shade)], 4 * index);
      }
    }
    context.putImageData(image, 0, 0);
  };
  heatMaps.set(canvas, draw);
  draw();
}

/** Repaint all heat maps after a change of colors. */
export function repaint() {
  for (const [canvas, draw] of heatMaps) {
    if (canvas.isConnected) draw();
    else heatMaps.delete(canvas);
  }
}

/**
 * The RGB components of a color property.
 * @param {Element} element
 * @param {string} property
 * @returns {[number, number, number]}
 */
function colorOf(element, property) {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!probe) return [0, 0, 0];
  probe.fillStyle = getComputedStyle(element).getPropertyValue(property);
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}
