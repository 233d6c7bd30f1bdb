/** Guarantee: what other programs hand in is read as its sender spelled it, or refused with a sentence before anything is done. */
import { describe, expect, test } from "vitest";
import {
  inputOfEntry,
  inputOfJob,
  scheduleIdIn,
  senderOf,
  senderOfEntry,
} from "../../../../src/service/intake/input.ts";
import { INTAKE_MAX_BYTES, INTAKE_MAX_FIELDS } from "../../../../src/shared/protocol/intake.ts";
import { MESSAGE_MAX_BYTES } from "../../../../src/shared/protocol/message.ts";
import { JSON_MAX_DEPTH } from "../../../../src/shared/protocol/text.ts";

const WISH = { parent_id: "shell", prompt: "Look around." };
const entry = (more: Record<string, string> = {}) =>
  inputOfEntry(Object.entries({ ...WISH, ...more }).flat());
const job = (more: Record<string, unknown> = {}, isScheduled = false) =>
  inputOfJob({ data: { ...WISH, ...more } }, isScheduled);
const refusal = (why: string | RegExp) =>
  expect.objectContaining({
    code: "invalid_input",
    message: typeof why === "string" ? expect.stringContaining(why) : expect.stringMatching(why),
  });
const TOO_DEEP = `it nests deeper than ${JSON_MAX_DEPTH} levels`;
/** JSON of an object that has so many levels. */
const nested = (levels: number) => `${'{"a":'.repeat(levels - 1)}{}${"}".repeat(levels - 1)}`;

describe("an entry of the stream", () => {
  test("says whose it is and what to do; the rest has its defaults, and its reply goes to the channel", () => {
    expect(entry()).toEqual({ ...WISH, v: 1, tenant: "default", reply: "channel" });
  });

  test.each([
    ["1", true],
    ["true", true],
    ["0", false],
    ["false", false],
    ["", false],
  ])("reads the flag %j as %j", (text, flag) => {
    expect(entry({ keep_alive: text }).keep_alive).toBe(flag);
  });

  test("refuses a flag that is neither", () => {
    for (const keep_alive of ["yes", "2", "TRUE"])
      expect(() => entry({ keep_alive })).toThrow(refusal("keep_alive"));
  });

  test.each([
    ["read_file,grep", ["read_file", "grep"]],
    ["read_file,,grep,", ["read_file", "grep"]],
    ["", []],
    ['["read_file","a,b"]', ["read_file", "a,b"]],
    [' ["read_file"]', ["read_file"]],
  ])("reads the names %j as %j", (tools, names) => {
    expect(entry({ tools }).tools).toEqual(names);
  });

  test("reads numbers and JSON", () => {
    expect(entry({ transcript_ms: "60000", limits: '{"max_turns":3}' })).toMatchObject({
      transcript_ms: 60_000,
      limits: { max_turns: 3 },
    });
  });

  test("refuses what is no number, no JSON, or JSON that nests too deep", () => {
    expect(() => entry({ transcript_ms: "soon" })).toThrow(refusal("transcript_ms"));
    expect(() => entry({ limits: "{" })).toThrow(refusal("its field limits is no JSON"));
    expect(() => entry({ tools: "[" })).toThrow(refusal("its field tools is no JSON"));
    expect(() => entry({ output_schema: nested(JSON_MAX_DEPTH) })).not.toThrow(refusal(TOO_DEEP));
    expect(() => entry({ output_schema: nested(JSON_MAX_DEPTH + 1) })).toThrow(refusal(TOO_DEEP));
  });

  test("refuses a field that it does not know, and says where files go", () => {
    expect(() => entry({ colour: "red" })).toThrow(refusal('it has no field "colour"'));
    expect(() => entry({ toString: "x" })).toThrow(refusal('it has no field "toString"'));
    for (const name of ["files", "images"])
      expect(() => entry({ [name]: "x" })).toThrow(refusal("name them in the prompt"));
  });

  test("has so many fields and so many bytes at most", () => {
    const flat = (fields: number) => Array.from({ length: fields }, () => ["prompt", "Look around."]).flat();
    expect(() => inputOfEntry([...flat(INTAKE_MAX_FIELDS - 1), "parent_id", "shell"])).not.toThrow();
    expect(() => inputOfEntry([...flat(INTAKE_MAX_FIELDS), "parent_id", "shell"])).toThrow(refusal("fields"));
    // Two bytes a character: it is bytes that count.
    const long = "é".repeat(MESSAGE_MAX_BYTES / 2 - 1);
    const size = (flatFields: string[]) =>
      flatFields.reduce((bytes, word) => bytes + Buffer.byteLength(word), 0);
    const rest = ["parent_id", "shell", "prompt", long, "system", long, "description", ""];
    const fitting = [...rest.slice(0, -1), "x".repeat(INTAKE_MAX_BYTES - size(rest))];
    expect(inputOfEntry(fitting).system).toBe(long);
    expect(() => inputOfEntry([...fitting.slice(0, -1), `${fitting.at(-1)}x`])).toThrow(refusal("bytes"));
  });
});

describe("a job", () => {
  test("returns its reply unless it says otherwise, and brings its fields as JSON", () => {
    expect(job({ keep_alive: false, tools: ["a"] })).toEqual({
      ...WISH,
      v: 1,
      tenant: "default",
      reply: "return",
      keep_alive: false,
      tools: ["a"],
    });
    expect(job({ reply: "channel" }).reply).toBe("channel");
  });

  test.each([null, undefined, "text", 5, [], {}])("refuses the data %j", (data) => {
    expect(() => inputOfJob({ data }, false)).toThrow(refusal(/intake/));
  });

  test("that could not be read is refused with the reason", () => {
    expect(() => inputOfJob({ data: WISH, unread: "its data is no JSON" }, false)).toThrow(
      refusal("its data is no JSON"),
    );
  });

  test("refuses unknown fields, too many of them, too many bytes and too many levels", () => {
    expect(() => job({ colour: "red" })).toThrow(refusal('it has no field "colour"'));
    const many = Object.fromEntries(Array.from({ length: INTAKE_MAX_FIELDS }, (_, n) => [`f${n}`, 1]));
    expect(() => job(many)).toThrow(refusal(`more than ${INTAKE_MAX_FIELDS} fields`));
    expect(() => job({ description: "é".repeat(INTAKE_MAX_BYTES / 2) })).toThrow(refusal("bytes"));
    const schema = (levels: number) => ({ output_schema: JSON.parse(nested(levels)) });
    expect(() => job(schema(JSON_MAX_DEPTH - 1))).not.toThrow(refusal(TOO_DEEP));
    expect(() => job(schema(JSON_MAX_DEPTH))).toThrow(refusal(TOO_DEEP));
  });

  test("names its schedule only where a schedule has put it there, and the wish is without it", () => {
    expect(() => job({ schedule_id: "morning" })).toThrow(refusal('it has no field "schedule_id"'));
    expect(job({ schedule_id: "morning" }, true)).not.toHaveProperty("schedule_id");
    expect(scheduleIdIn({ schedule_id: "morning" })).toBe("morning");
    expect(scheduleIdIn({ schedule_id: 5 })).toBeUndefined();
    expect(scheduleIdIn(undefined)).toBeUndefined();
  });
});

test("whose a refused wish is, is known as far as it can be read", () => {
  const parent = { tenant: "acme", parentId: "shell" };
  const said = { tenant: "acme", parent_id: "shell", request_key: "k-1", colour: "red" };
  expect(senderOf(said)).toEqual({ parent, requestKey: "k-1" });
  expect(senderOf({ ...said, request_key: 5 })).toEqual({ parent, requestKey: undefined });
  expect(senderOf({ parent_id: "shell" })?.parent.tenant).toBe("default");
  for (const source of [undefined, null, "x", {}, { ...said, parent_id: 5 }, { ...said, tenant: "a/b" }])
    expect(senderOf(source)).toBeUndefined();
  expect(senderOfEntry(Object.entries(said).flat())).toEqual({ parent, requestKey: "k-1" });
  expect(senderOfEntry(["colour", "red"])).toBeUndefined();
  const behind = Array.from({ length: INTAKE_MAX_FIELDS }, () => ["colour", "red"]).flat();
  expect(senderOfEntry([...behind, "parent_id", "shell"])).toBeUndefined();
});
