/** `docs/protocol.md` says what the code does: each of its tables, row by row and in both directions. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { AgentRecord, PAYLOAD_VERSION } from "../../../src/shared/protocol/agent.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import * as timing from "../../../src/shared/protocol/timing.ts";
import { WORKER_TTL_MS } from "../../../src/shared/protocol/worker.ts";
import { SCRIPTS } from "../../../src/shared/redis/script-table.ts";

const DOC = readFileSync(new URL("../../../docs/protocol.md", import.meta.url), "utf8");

/** The rows of the table under a heading, cells trimmed, code marks taken off. */
function tableUnder(heading: string): string[][] {
  const section = DOC.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  return rows.slice(2).map((row) =>
    row
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim().replaceAll("`", "")),
  );
}

test("every key and channel stands in the table with its spelling, and nothing else does", () => {
  const keys = keysUnder("saq");
  const parent = { tenant: "<tenant>", parentId: "<parent>" };
  const spelled: Record<string, string> = {};
  const spell = (prefix: string, names: object) => {
    for (const [name, value] of Object.entries(names)) {
      if (name === "parent" || name === "agent") continue;
      const own = { request: "<request_key>", message: "<message_id>", worker: "<worker_id>" }[name];
      const argument = name.startsWith("gate") ? "<gate>" : own;
      spelled[`${prefix}${name}`] = typeof value === "function" ? value(argument ?? "<reply_id>") : value;
    }
  };
  spell("", keys);
  spell("parent.", keys.parent(parent));
  spell("agent.", keys.agent({ ...parent, uid: "<uid>" }));
  expect(Object.fromEntries(tableUnder("Keys").map(([name = "", key = ""]) => [name, key]))).toEqual(spelled);
});

test("every key's row says type, stay, writer and reader", () => {
  for (const row of tableUnder("Keys")) {
    expect(row, row[0]).toHaveLength(6);
    for (const cell of row) expect(cell, row[0]).not.toBe("");
  }
});

test("every script stands in the table with its keys, arguments and answers in order", () => {
  const open = new Set(["spawn.quota", "append.conflict", "deadline-due.due"]);
  const expected = Object.entries(SCRIPTS).map(([name, { keys, args, answers }]) => [
    name,
    keys.join(", "),
    [...args, ...(name === "append" || name === "ask" ? ["…"] : [])].join(", "),
    Object.entries(answers)
      .map(([word, fields]) => {
        const values = [...fields, ...(open.has(`${name}.${word}`) ? ["…"] : [])];
        return values.length === 0 ? word : `${word}{${values.join(", ")}}`;
      })
      .join(", "),
  ]);
  expect(tableUnder("Scripts")).toEqual(expected);
});

test("every duration stands in the table with its value, and nothing else does", () => {
  const { TIMING, IDLE_MS, ANSWER_MS, WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } = timing;
  const durations = { ...TIMING, IDLE_MS, ANSWER_MS, WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS, WORKER_TTL_MS };
  const constants = Object.keys(timing).filter((name) => name.endsWith("_MS"));
  expect(Object.keys(durations)).toEqual(expect.arrayContaining(constants));
  const expected = Object.entries(durations).map(([name, ms]) => [name, inWords(ms)]);
  expect(tableUnder("Durations").map((row) => row.slice(0, 2))).toEqual(expected);
});

test("every field of the record that is read back stands in its table", () => {
  const fields = tableUnder("Record").flatMap(([names = ""]) => names.split(", "));
  expect(fields).toEqual(expect.arrayContaining(Object.keys(AgentRecord.shape)));
});

test("every field that a script gives a record stands in its table, and every field of the table is used", () => {
  const sources = Object.keys(SCRIPTS)
    .map((name) => lua(name))
    .join("\n");
  const written = [...sources.matchAll(/'HSET', record,([^)]*(?:\([^)]*\)[^)]*)*)/g)].flatMap(
    ([, list = ""]) =>
      [...list.replace(/\([^()]*(?:\([^()]*\)[^()]*)*\)/g, "").matchAll(/'([a-z_]+)', (?=\S)/g)].map(
        ([, field]) => field,
      ),
  );
  const fields = tableUnder("Record").flatMap(([names = ""]) => names.split(", "));
  const values = new Set(["queued", "idle", "ended", "running", "waiting", "0", "1"]);
  expect(written).toEqual(expect.arrayContaining(["uid", "end_entry", "not_before", "released_epoch"]));
  expect(fields).toEqual(expect.arrayContaining(written.filter((field) => field && !values.has(field))));
  expect(fields.filter((field) => !sources.includes(`'${field}'`))).toEqual([]);
});

test("every payload is of the version that this release writes", () => {
  const versions = tableUnder("Payloads").map((row) => row[2]);
  expect(versions.length).toBeGreaterThan(5);
  expect(new Set(versions)).toEqual(new Set([`${PAYLOAD_VERSION}`]));
});

function lua(name: string): string {
  return readFileSync(new URL(`../../../src/shared/redis/lua/${name}.lua`, import.meta.url), "utf8");
}

function inWords(ms: number): string {
  const units: [string, number][] = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ];
  const [unit, size] = units.find(([name, size]) => ms % size === 0 && (name !== "min" || ms >= 600_000)) ?? [
    "ms",
    1,
  ];
  return `${ms / size} ${unit}`;
}
