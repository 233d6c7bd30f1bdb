/** `docs/protocol.md` says what the code does: each of its tables, row by row and in both directions. */
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PAYLOAD_VERSION, RecordFields } from "../../src/shared/protocol/agent.ts";
import { INTAKE_FIELDS, IntakeInput } from "../../src/shared/protocol/intake.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import * as timing from "../../src/shared/protocol/limits.ts";
import { WORKER_TTL_MS } from "../../src/shared/protocol/worker.ts";
import type { Codec } from "../../src/shared/redis/codec.ts";
import { luaSource, type VerbName } from "../../src/shared/redis/scripts.ts";
import { type Verb, wordsOf } from "../../src/shared/redis/verb.ts";
import { VERBS } from "../../src/shared/redis/verbs.ts";
import { keyMembers } from "../helpers/key-names.ts";
import { codeIn, protocolRows } from "../helpers/protocol-rows.ts";

const DOC_FILE = new URL("../../docs/protocol.md", import.meta.url);
const DOC = readFileSync(DOC_FILE, "utf8");

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
      const own = {
        budget: "<budget>",
        reservation: "<budget>/<purchase>.<try>",
        callback: "<thread_id>",
        deleted: "<thread_id>",
        charged: "<purchase>",
        request: "<request_key>",
        message: "<message_id>",
        worker: "<worker_id>",
        apiKeyUsed: "<key_id>",
        wakeJob: "<job>",
        intakeJob: "<job>",
        fairTenant: "<tenant>",
        tenantParents: "<tenant>",
      }[name];
      const argument = name.startsWith("limiter") ? "<limiter>" : own;
      spelled[`${prefix}${name}`] = typeof value === "function" ? value(argument ?? "<reply_id>") : value;
    }
  };
  spell("", keys);
  spell("parent.", keyMembers(keys.parent(parent)));
  spell("agent.", keyMembers(keys.agent({ ...parent, uid: "<uid>" })));
  expect(Object.fromEntries(tableUnder("Keys").map(([name = "", key = ""]) => [name, key]))).toEqual(spelled);
});

test("every key's row says type, stay, writer and reader", () => {
  for (const row of tableUnder("Keys")) {
    expect(row, row[0]).toHaveLength(6);
    for (const cell of row) expect(cell, row[0]).not.toBe("");
  }
});

/** What a script is handed along with what several have in common, and does not use. */
const UNUSED: Readonly<Record<string, readonly string[]>> = { ask: ["agent.inbox", "agent.attachments"] };
/** Under which names scripts are told of channels. */
const CHANNELS: Readonly<Record<string, string>> = {
  doorbell: "parent.doorbell",
  events_channel: "parent.events",
  hints: "hints",
  webhook_doorbell: "webhookDoorbell",
};

test("a key's row names the scripts that are handed the key, and no others", () => {
  const rows = protocolRows("saq");
  const keys = keysUnder("saq");
  const address = { tenant: "acme", parentId: "planner", uid: "sa-1" };
  const words = {
    request_key: "k",
    message_id: "m",
    reply_id: "sa-1.1",
    run: 1,
    name: "n",
    purchase_id: "sa-1.1.1",
    job_id: "sa-1.1",
    worker_id: "w-1",
  };
  const given = { ...words, tenant: "acme", lock: keys.callbackLock };
  const handed = Object.entries<Verb>(VERBS).flatMap(([verb, { keys: names, context }]) => {
    const spelled = wordsOf({ keys: names, context: [] }, { keys, timing: timing.TIMING }, address, given);
    const at = spelled.map((key) => rows.find(({ spelling }) => spelling.test(key))?.name ?? key);
    at.push(...context.flatMap((name) => CHANNELS[name] ?? []));
    return at.filter((row) => !UNUSED[verb]?.includes(row)).map((row) => `${row}: ${verb}`);
  });
  const named = rows.flatMap(({ name, writtenBy, readBy }) =>
    codeIn(`${writtenBy} ${readBy}`).flatMap((code) => (code in VERBS ? [`${name}: ${code}`] : [])),
  );
  expect([...new Set(named)].sort()).toEqual([...new Set(handed)].sort());
});

test("every verb stands in the table with its keys, what it is told by name, its arguments and answers", () => {
  const names = (fields: object) =>
    Object.entries(fields).map(([name, codec]) => (isOptional(codec) ? `${name}?` : name));
  const expected = Object.entries<Verb>(VERBS).map(([name, { keys, context, args, lists = {}, answers }]) => [
    name,
    keys.join(", "),
    context.join(", ") || "–",
    [...names(args), ...Object.keys(lists).map((list) => `${list}…`)].join(", ") || "–",
    Object.entries(answers)
      .map(([word, fields]) => {
        const values = names(fields);
        return values.length === 0 ? word : `${word}{${values.join(", ")}}`;
      })
      .join(", "),
  ]);
  if (process.env.UPDATE_PROTOCOL_DOC) writeTable("Verbs", expected);
  expect(tableUnder("Verbs")).toEqual(expected);
});

/** Whether a codec takes a value that is missing. */
function isOptional(codec: Codec<unknown>): boolean {
  return codec.local("v").startsWith("given(");
}

/** Writes the rows of a table anew, first cell as code; for whoever has changed the verbs. */
function writeTable(heading: string, rows: readonly string[][]): void {
  const [before = "", behind = ""] = DOC.split(`\n## ${heading}\n`);
  const lines = behind.split("\n");
  const from = lines.findIndex((line) => line.startsWith("|")) + 2;
  const length = lines.slice(from).findIndex((line) => !line.startsWith("|"));
  lines.splice(from, length, ...rows.map(([name, ...cells]) => `| \`${name}\` | ${cells.join(" | ")} |`));
  writeFileSync(DOC_FILE, `${before}\n## ${heading}\n${lines.join("\n")}`);
}

test("every duration stands in the table with its value, and nothing else does", () => {
  const { TIMING, IDLE_MS, ANSWER_MS, RESERVATION_MS, LIMITER_LATE_MS } = timing;
  const { WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } = timing;
  const kept = { WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS, WORKER_TTL_MS };
  const durations = { ...TIMING, IDLE_MS, ANSWER_MS, RESERVATION_MS, LIMITER_LATE_MS, ...kept };
  const constants = Object.keys(timing).filter((name) => name.endsWith("_MS"));
  expect(Object.keys(durations)).toEqual(expect.arrayContaining(constants));
  const expected = Object.entries(durations).map(([name, value]) => [
    name,
    /ms$/i.test(name) ? inWords(value) : `${value}`,
  ]);
  expect(tableUnder("Durations").map((row) => row.slice(0, 2))).toEqual(expected);
});

test("every field of the record that is read back stands in its table", () => {
  const fields = tableUnder("Record").flatMap(([names = ""]) => names.split(", "));
  expect(fields).toEqual(expect.arrayContaining(Object.keys(RecordFields.shape)));
});

test("every field that a script gives a record stands in its table, and every field of the table is used", () => {
  const sources = (Object.keys(VERBS) as VerbName[]).map(luaSource).join("\n");
  const tables = [
    ...sources.matchAll(/(?:write\(record, |queue(?:_run)?\(record,[^{\n]*|fields = )\{([^}]*)\}/g),
  ];
  const inTables = tables.flatMap(([, list = ""]) =>
    [...list.matchAll(/([a-z_]+) = /g)].map(([, field]) => field),
  );
  const inFields = [...sources.matchAll(/fields\.([a-z_]+)(?=[^=\n]*=)/g)].map(([, field]) => field);
  const direct = [...sources.matchAll(/'HSET', record, '([a-z_]+)'/g)].map(([, field]) => field);
  const written = [...inTables, ...inFields, ...direct];
  const fields = tableUnder("Record").flatMap(([names = ""]) => names.split(", "));
  expect(written).toEqual(
    expect.arrayContaining(["uid", "end_entry", "not_before", "released_epoch", "begun", "wake"]),
  );
  expect(written.filter((field) => field && !fields.includes(field))).toEqual([]);
  expect(fields.filter((field) => !new RegExp(`\\b${field}\\b`).test(sources))).toEqual([]);
});

test("every payload is of the version that this release writes", () => {
  const versions = tableUnder("Payloads").map((row) => row[2]);
  expect(versions.length).toBeGreaterThan(5);
  expect(new Set(versions)).toEqual(new Set([`${PAYLOAD_VERSION}`]));
});

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

test("every field of the intake stands in the table as it is spelled, and the schema has no other but reply", () => {
  const rows = tableUnder("Intake").map(([field = "", spelled = ""]) => [field, spelled]);
  expect(Object.fromEntries(rows)).toEqual(INTAKE_FIELDS);
  expect(Object.keys(IntakeInput.shape).sort()).toEqual([...Object.keys(INTAKE_FIELDS), "reply"].sort());
});
