import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { problemLog } from "../../../src/shared/problem-log.ts";

function scene() {
  const problems: string[] = [];
  const write = (line: string) => {
    const { level, msg, problem } = JSON.parse(line);
    expect({ level, msg }).toEqual({ level: 40, msg: "Work failed" });
    problems.push(problem);
  };
  return { problems, log: problemLog(createLogger({ destination: { write } }), "Work failed") };
}

test("a problem is told once, also if another one comes in between, and again after a success", () => {
  const { problems, log } = scene();
  for (const problem of ["no room", "no disk", "no room", "no disk"]) log.tell(problem);
  expect(problems).toEqual(["no room", "no disk"]);
  log.over();
  log.tell("no room");
  expect(problems).toEqual(["no room", "no disk", "no room"]);
});

test("problems that differ only in ids and numbers are one", () => {
  const { problems, log } = scene();
  for (const n of [1, 2]) {
    log.tell(`could not renew lock for job sa-${n}f.1`);
    log.tell(`NOREPLICAS Not enough good replicas to write. script: ${n}c0ffee, on @user_script:${n}.`);
  }
  expect(problems).toEqual([
    "could not renew lock for job sa-1f.1",
    "NOREPLICAS Not enough good replicas to write. script: 1c0ffee, on @user_script:1.",
  ]);
});

test("a hundred kinds of problem are remembered, and with one more all are told once again", () => {
  const { problems, log } = scene();
  const kinds = Array.from({ length: 101 }, (_, n) => `problem ${"x".repeat(n)}`);
  for (const kind of kinds.slice(0, 100)) log.tell(kind);
  log.tell(kinds[0] ?? "");
  expect(problems).toHaveLength(100);
  log.tell(kinds[100] ?? "");
  log.tell(kinds[0] ?? "");
  expect(problems).toHaveLength(102);
});
