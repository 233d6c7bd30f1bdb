import { expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/command.ts";
import { questionsOf } from "../../../../src/cli/verbs/run.ts";
import { AgentName } from "../../../../src/shared/protocol/ids.ts";
import { runHere } from "../../../helpers/program.ts";
import { CLEAN } from "../../../helpers/program-on-stage.ts";

const namesOf = (...prompts: string[]) => questionsOf(prompts).map((question) => question.name);

test("a sub-agent is named after the first words of its prompt", () => {
  expect(namesOf("How many  TODO\ncomments are there?")).toEqual(["How many TODO comments are there?"]);
  expect(namesOf(`Review src/index.ts ${"and more ".repeat(50)}`)).toEqual([
    "Review src index.ts and more and more a…",
  ]);
});

test("equal prompts get names of their own", () => {
  expect(namesOf("again", "again", "again")).toEqual(["again", "again 2", "again 3"]);
});

test("the names of 20,000 equal prompts take time in proportion to their number, and pass over one that is taken", () => {
  const begin = process.cpuUsage();
  const names = namesOf("again 3", ...new Array<string>(20_000).fill("again"));
  const { user } = process.cpuUsage(begin);
  expect(names.slice(0, 4)).toEqual(["again 3", "again", "again 2", "again 4"]);
  expect(new Set(names).size).toBe(20_001);
  expect(user / 1_000).toBeLessThan(5_000);
});

test("every name is accepted as one, whatever the prompt", () => {
  const prompts = [
    "../../x",
    "\u0007\u001b[2J",
    "//",
    "数据收集器".repeat(40),
    "a\u0000b",
    "x".repeat(10_000),
    `e${"\u0301".repeat(5_000)}`,
    "\u{1f468}\u200d".repeat(300),
  ];
  for (const name of namesOf(...prompts)) expect(AgentName.safeParse(name).success, name).toBe(true);
});

test.each([
  ["an empty", "", "write what the sub-agent should do or know"],
  ["a blank", " \n\t ", "write what the sub-agent should do or know"],
  ["a 300 KB", "x".repeat(300 * 1024), "at most 256 KB: put long material into a file and name it"],
])("%s prompt is refused by its number", (_what, prompt, why) => {
  expect(() => questionsOf(["fine", prompt])).toThrow(`Prompt 2 is refused: ${why}.`);
});

test("a prompt of exactly 256 KB is accepted", () => {
  expect(questionsOf(["x".repeat(256 * 1024)])).toHaveLength(1);
});

test.each([
  [["--model", "a b"], /^subagent-queue: run refused, nothing was done: model: a model's id has no spaces/],
  [["--model", ""], /: model: name a model\.$/],
  [["--system", " "], /: system: it is blank/],
  [["--tools", "read_file,,grep"], /: tools\.1: a tool's name is empty\.$/],
  [["--agent", ""], /: agent: must be at least 1 character long\.$/],
  [["--agent", "nope"], /There is no agent definition "nope": use one of /],
])("%j is refused before a worker is started, or Redis is asked", async (flags, why) => {
  // Nothing answers there: a command that begins ends as one that has no Redis.
  const env = { ...CLEAN, REDIS_URL: "redis://127.0.0.1:1" };
  const { code, stdout, stderr } = await runHere(["run", "hi", ...flags], { cwd: import.meta.dirname, env });
  expect({ code, stdout, stderr }).toEqual({
    code: EXIT.usage,
    stdout: [],
    stderr: [expect.stringMatching(why)],
  });
});
