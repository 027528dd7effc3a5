/** Files of safetensors: a header in JSON, then the numbers of all tensors. */

import { Tensor } from "../tensor.js";

/** @typedef {{ dtype: string, shape: number[], bytes: Uint8Array }} Stored */

/** The stored tensors of a file by name. @param {ArrayBuffer} buffer */
function parse(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  /** @type {Map<string, Stored>} */
  const tensors = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [start, end] = entry.data_offsets;
    const bytes = new Uint8Array(buffer, 8 + length + start, end - start);
    tensors.set(name, { dtype: entry.dtype, shape: entry.shape, bytes });
  }
  return tensors;
}

/**
 * All weights of a file in float32; int8 matrices have a scale for each row in `NAME.scale`.
 * @param {ArrayBuffer} buffer
 * @returns {Map<string, Tensor>}
 */
export function readWeights(buffer) {
  const tensors = parse(buffer);
  /** @type {Map<string, Tensor>} */
  const weights = new Map();
  for (const [name, stored] of tensors) {
    const data = floats(stored);
    const scale = stored.dtype === "I8" ? tensors.get(`${name}.scale`) : undefined;
    if (scale) {
      const scales = floats(scale);
      const width = data.length / scales.length;
      for (let index = 0; index < data.length; index++) data[index] *= scales[Math.floor(index / width)];
    }
    weights.set(name, new Tensor(stored.shape, data));
  }
  return weights;
}

/** The numbers of a tensor in float32. @param {Stored} stored @returns {Float32Array<ArrayBuffer>} */
function floats({ dtype, bytes }) {
  const own = bytes.slice().buffer; // aligned for every type
  switch (dtype) {
    case "F32":
      return new Float32Array(own);
    case "F64":
      return Float32Array.from(new Float64Array(own));
    case "I8":
      return Float32Array.from(new Int8Array(own));
    case "F16":
      return Float32Array.from(new Uint16Array(own), half);
    case "BF16": {
      const bits = Uint32Array.from(new Uint16Array(own), (value) => value << 16);
      return new Float32Array(bits.buffer);
    }
    default:
      throw new Error(`model.safetensors: expected floating-point numbers or int8, found ${dtype}`);
  }
}

/** The value of a 16-bit float. @param {number} bits */
function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}
