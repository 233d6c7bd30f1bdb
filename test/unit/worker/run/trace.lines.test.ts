/** Guarantee: each committed entry is one JSON line of the trace; a trace that cannot be written costs the run nothing. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { newNotice, newStarted } from "../../../../src/worker/loop/log.ts";
import { traceBeside } from "../../../../src/worker/run/trace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const KEY = "sk-test-t1r2a3c4e5f6g7h8";
keepSecret(KEY);

/** A trace beside a workspace in a directory of its own, and what it logs. */
async function scene(...below: string[]) {
  const home = await mkdtemp(join(tmpdir(), "trace-"));
  closeAtEnd(() => rm(home, { recursive: true, force: true }));
  const said: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void said.push(JSON.parse(line).msg) } });
  const clock = handClock();
  const trace = traceBeside(join(home, ...below, "workspace"), clock, logger);
  return { trace, said, at: new Date(clock.now()).toISOString(), path: join(home, "trace.jsonl") };
}

test("a line tells when its entry was committed, its run, its key and its content, with secrets masked", async () => {
  const { trace, at, path, said } = await scene();
  await trace(2, [newNotice(4, `The key is ${KEY}.`), newStarted(5, "a", "look")]);
  await trace(3, [newNotice(6, "more")]);
  const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { at, run: 2, entry: "4/notice", value: { v: 1, text: "The key is [redacted]." } },
    { at, run: 2, entry: "5/a/started", value: { v: 1, name: "look" } },
    { at, run: 3, entry: "6/notice", value: { v: 1, text: "more" } },
  ]);
  expect(said).toEqual([]);
});

test("a trace that the disk refuses is logged each time, and rejects nothing", async () => {
  const { trace, said } = await scene("not", "there");
  await trace(1, [newNotice(0, "one")]);
  await trace(1, [newNotice(0, "two")]);
  expect(said).toEqual(["Trace not written", "Trace not written"]);
});
