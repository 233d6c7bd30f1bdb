/** Estimates the tokens of a text: only the provider knows them. Pure. */

/** Bytes of JSON per token, about. */
export const BYTES_PER_TOKEN = 4;
/** Tokens per image: its bytes do not show them, and providers scale large images down. */
const TOKENS_PER_IMAGE = 5_000;
const IMAGE_END = '"}}';

/** Returns the tokens of a JSON text, about: from its bytes without images, and the number of its images. */
export function tokensIn(json: string): number {
  // The beginning of an image, up to its bytes. No JSON string contains it, because its quotes would be escaped there.
  const begins = /\{"type":"image","source":\{"type":"base64","media_type":"image\/[a-z]{1,8}","data":"/g;
  let [bytes, images, from] = [0, 0, 0];
  for (const { index, 0: begin } of json.matchAll(begins)) {
    // Base64 has no quote, so no image begins within another.
    const end = json.indexOf('"', index + begin.length);
    if (!json.startsWith(IMAGE_END, end)) continue;
    bytes += Buffer.byteLength(json.slice(from, index));
    images += 1;
    from = end + IMAGE_END.length;
  }
  bytes += Buffer.byteLength(json.slice(from));
  return bytes / BYTES_PER_TOKEN + images * TOKENS_PER_IMAGE;
}
