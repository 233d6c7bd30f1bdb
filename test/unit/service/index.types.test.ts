/** Guarantee: a TypeScript program that uses the API needs no types of Express, unless it uses Express itself. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SERVICE = join(import.meta.dirname, "..", "..", "..", "src", "service");
const textOf = (file: string) => readFileSync(join(SERVICE, file), "utf8");

test("no file whose types the door exports imports Express", () => {
  const exports = [...textOf("index.ts").matchAll(/^export [^;]* from "(\.\/[^"]+)";$/gm)];
  const files = exports.flatMap(([text, file = ""]) => (/\btype\b/.test(text) ? [file] : []));
  expect(files).toContain("./api/mount.ts");
  for (const file of files) expect(textOf(file), file).not.toMatch(/from "express"/);
});
