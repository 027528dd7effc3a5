/** Images: drawn pixel by pixel under a grid of patches, and read from a file. */

import { h } from "./dom.js";
import { cellAt, put } from "./matrix.js";

/**
 * An image with its patches; the pointer moves the cursor to a patch, a click pins it.
 * @param {(row: number, column: number) => void} move
 * @param {(row: number, column: number) => void} pin
 */
export function pictureView(move, pin) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const cursor = h("span", { class: "cell cursor" });
  const pinned = h("span", { class: "cell pinned", hidden: true });
  const root = h("div", { class: "picture", role: "img" }, canvas, pinned, cursor);
  let shape = [1, 1];
  root.addEventListener("pointermove", (event) => move(...cellAt(event, root, shape)));
  root.addEventListener("click", (event) => pin(...cellAt(event, root, shape)));
  return {
    root,
    /**
     * @param {import("./tensor.js").Tensor} pixels (channels, height, width), from 0 to 1
     * @param {[number, number]} grid
     * @param {string} label
     */
    show(pixels, grid, label) {
      shape = grid;
      root.style.setProperty("--rows", String(grid[0]));
      root.style.setProperty("--columns", String(grid[1]));
      root.setAttribute("aria-label", label);
      const [channels, height, width] = pixels.shape;
      [canvas.width, canvas.height] = [width, height];
      const context = canvas.getContext("2d");
      const image = context?.createImageData(width, height);
      if (!context || !image) return;
      const size = width * height;
      for (let pixel = 0; pixel < size; pixel++) {
        const color = [0, 1, 2].map((channel) => 255 * pixels.data[(channel % channels) * size + pixel]);
        image.data.set([...color, 255], 4 * pixel);
      }
      context.putImageData(image, 0, 0);
    },
    /** @param {[number, number] | null} patch */
    cursor: (patch) => put(cursor, patch),
    /** @param {[number, number] | null} patch */
    pinned: (patch) => put(pinned, patch),
  };
}

/**
 * Read an image file, center-crop it to the shape's aspect ratio and scale it: one byte per pixel and channel, in
 * base64. Rejects for a file that isn't an image.
 * @param {Blob} file
 * @param {[channels: number, height: number, width: number]} shape
 */
export async function pixelsOf(file, [channels, height, width]) {
  const bitmap = await createImageBitmap(file);
  const context = h("canvas", { width, height }).getContext("2d", { willReadFrequently: true });
  if (!context) return "";
  const scale = Math.min(bitmap.width / width, bitmap.height / height);
  const [across, down] = [scale * width, scale * height];
  context.imageSmoothingQuality = "high";
  context.fillRect(0, 0, width, height); // transparent pixels become black
  context.drawImage(
    bitmap,
    ...[(bitmap.width - across) / 2, (bitmap.height - down) / 2, across, down],
    ...[0, 0, width, height],
  );
  const { data } = context.getImageData(0, 0, width, height);
  const bytes = Array.from({ length: channels * height * width }, (_, i) => {
    const pixel = 4 * (i % (height * width));
    if (channels > 1) return data[pixel + Math.floor(i / (height * width))];
    return Math.round((data[pixel] + data[pixel + 1] + data[pixel + 2]) / 3);
  });
  return btoa(bytes.map((byte) => String.fromCharCode(byte)).join(""));
}
