import { expect, test } from "vitest";
import { spawnNode } from "../helpers/processes.ts";
import { parseOptions } from "./options.ts";

test("what is left out has a default, and the command that repeats the run is complete", () => {
  const parsed = parseOptions(["--runs", "40", "--faults", "redis,kill"], 7);
  expect(parsed).toMatchObject({
    status: "valid",
    options: { runs: 40, kills: 20, seed: 7, workers: 4, timing: "production" },
  });
  expect(parsed.status === "valid" && parsed.options.command).toBe(
    "npm run test:chaos -- --runs 40 --kills 20 --seed 7 --workers 4 --faults kill,redis --timing production",
  );
});

test("what the chaos learns to do beside is an option, and stands in the command that repeats it", () => {
  const args = [
    "--latency",
    "10000-60000",
    "--turns",
    "2-4",
    "--fleet",
    "mixed",
    "--isolation",
    "--no-stalled-check",
  ];
  const parsed = parseOptions(args, 7);
  expect(parsed).toMatchObject({
    status: "valid",
    options: {
      latencyMs: [10_000, 60_000],
      turns: [2, 4],
      fleet: "mixed",
      isolation: true,
      stalledCheck: false,
    },
  });
  expect(parsed.status === "valid" && parsed.options.command.endsWith(args.join(" "))).toBe(true);
});

test.for<[args: string[], sentence: RegExp]>([
  [["--runs", "none"], /--runs must be a whole number from 1 to 100000, not "none"/],
  [["--runs", "0"], /--runs must be/],
  [["--kills", "1.5"], /--kills must be/],
  [["--workers", "1"], /--workers must be a whole number from 2/],
  [["--seed", "-1"], /seed/],
  [
    ["--faults", "kill,flood"],
    /--faults must be some of kill,stop,partition,swallow,redis,clock, not "kill,flood"/,
  ],
  [["--faults", ""], /--faults must be/],
  [["--timing", "fast"], /--timing must be production or short, not "fast"/],
  [["--latency", "60000-10000"], /--latency must be two numbers of ms/],
  [["--turns", "2"], /--turns must be two numbers, 2-4, not "2"/],
  [["--fleet", "odd"], /--fleet must be alike or mixed, not "odd"/],
  [["--rounds", "3"], /--rounds/],
  [["thousand"], /thousand/],
])("%j is refused with a sentence", ([args, sentence]) => {
  expect(parseOptions(args, 1)).toEqual({ status: "invalid", problem: expect.stringMatching(sentence) });
});

test("the command line plays a run outside of the suite, judges it, and says so in its exit code", async () => {
  const args = ["--runs", "4", "--kills", "1", "--faults", "kill", "--timing", "short", "--seed", "2"];
  const chaos = await spawnNode("test/chaos/main.ts", { args });
  expect(await chaos.closed, chaos.stderr.join("\n")).toMatchObject({ code: 0 });
  expect(chaos.stdout.join("\n")).toContain("nothing lost, nothing done twice");
});
