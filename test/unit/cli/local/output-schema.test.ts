import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readOutputSchema } from "../../../../src/cli/local/output-schema.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { refusal } from "../../../helpers/parents.ts";

const COUNT = { type: "object", properties: { count: { type: "integer" } }, required: ["count"] };
const MEGABYTE = 1024 * 1024;
/** User id without rights. */
const NOBODY = 65_534;

/** Writes `text` to a file of a new directory; returns both. */
function place(text: string | Buffer, file = "schema.json") {
  const cwd = mkdtempSync(join(tmpdir(), "schema-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  mkdirSync(join(cwd, "folder"));
  writeFileSync(join(cwd, file), text);
  return { cwd, signal: new AbortController().signal };
}

test("the schema of a file is found from where the command was called, and by its whole path", async () => {
  const source = place(JSON.stringify(COUNT));
  expect(await readOutputSchema("schema.json", source)).toEqual(COUNT);
  expect(await readOutputSchema(join(source.cwd, "schema.json"), { ...source, cwd: "/" })).toEqual(COUNT);
});

test("without the option there is no schema", async () => {
  expect(await readOutputSchema(undefined, place(""))).toBeUndefined();
});

test("a byte order mark and a megabyte that is mostly white space do no harm", async () => {
  const json = `\uFEFF${JSON.stringify(COUNT)}`;
  const spaces = " ".repeat(MEGABYTE - Buffer.byteLength(json));
  expect(await readOutputSchema("schema.json", place(json + spaces))).toEqual(COUNT);
});

test.each([
  ["a file that is not there", "{}", "nope.json", /there is no such file; name a file with a JSON Schema\.$/],
  ["a file as a directory", "{}", "schema.json/x", /there is no such file; name a file/],
  ["a directory", "{}", "folder", /it is a directory; name a file with a JSON Schema\.$/],
  ["an empty name", "{}", "", /it is a directory; name a file/],
  ["an empty file", "", "schema.json", /it is not JSON; write a JSON Schema, such as \{/],
  [
    "UTF-16",
    Buffer.from("\uFEFF{}", "utf16le"),
    "schema.json",
    /it is not UTF-8; convert it, .* iconv -t UTF-8\.$/,
  ],
  ["text", "{type: object}", "schema.json", /it is not JSON; write a JSON Schema, such as \{/],
  ["a list", "[{}]", "schema.json", /it holds no JSON object; write a JSON Schema/],
  ["null", "null", "schema.json", /it holds no JSON object; write a JSON Schema/],
  ["a wrong type", '{"properties":{"a":{"type":"strin"}}}', "schema.json", /"#\/properties\/a\/type": use/],
  ["a reference to elsewhere", '{"$ref":"http://x/y"}', "schema.json", /it has a \$ref to "http:\/\/x\/y"/],
  ["33 KB", JSON.stringify({ title: "x".repeat(33_000) }), "schema.json", /it is longer than 32 KB: ask for/],
  ["depth", "[".repeat(30).concat("]".repeat(30)), "schema.json", /it holds no JSON object/],
  [
    "an object of 100,000 levels",
    '{"a":'.repeat(100_000).concat("1", "}".repeat(100_000)),
    "schema.json",
    /it nests deeper than 24 levels: make it flatter\.$/,
  ],
])("%s is refused in one line with the file and what to do", async (_what, text, file, reason) => {
  const refused = refusal("invalid_input", reason);
  const reading = readOutputSchema(file, place(text));
  await expect(reading).rejects.toMatchObject(refused);
  const shown = `--schema ${JSON.stringify(file)} cannot be used: `;
  await expect(reading).rejects.toThrow(shown);
  await expect(reading).rejects.not.toThrow("\n");
});

test("of a file without an end a megabyte is read, and it is refused", async () => {
  const reading = readOutputSchema("/dev/zero", place(""));
  await expect(reading).rejects.toMatchObject(
    refusal("invalid_input", /it is larger than 1 MB; name a file/),
  );
  const spaces = place(`${JSON.stringify(COUNT)}${" ".repeat(MEGABYTE)}`);
  await expect(readOutputSchema("schema.json", spaces)).rejects.toThrow("it is larger than 1 MB");
});

test("a file that may not be read is refused by its name", async () => {
  const source = place("{}");
  execFileSync("chmod", ["0", join(source.cwd, "schema.json")]);
  // Root may read every file.
  if (process.geteuid?.() === 0) {
    chmodSync(source.cwd, 0o755);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
  }
  await expect(readOutputSchema("schema.json", source)).rejects.toThrow("this user may not read it");
});

test("a command that is stopped while it reads is told so, and not that the file is wrong", async () => {
  const { cwd } = place("{}");
  const stop = new AbortController();
  stop.abort();
  const reading = readOutputSchema("schema.json", { cwd, signal: stop.signal });
  await expect(reading).rejects.toBe(stop.signal.reason);
});
