// Runs the long forms of the tests, one after the other: `npm run test:nightly`; with `-- <word>` those whose name contains it.
import { spawnSync } from "node:child_process";

const redis = (...files) => ["npx", ["vitest", "run", "--project", "redis", ...files]];
const script = (name, ...args) => ["npm", ["run", "--silent", name, "--", ...args]];
/** Chaos with the leases of production. */
const chaos = (...args) => script("test:chaos", "--timing", "production", ...args);

/** Version of Node that the image has, and the suite's own process has not. */
const IMAGE_NODE = `node-${process.platform}-${process.arch}@24`;
const onImageNode = (...files) => [
  "npx",
  ["--yes", `--package=${IMAGE_NODE}`, "--", "node", "node_modules/vitest/vitest.mjs", "run", ...files],
];

/** Name, command, and the environment variables of the long form. */
const FORMS = [
  [
    "properties",
    ["npx", ["vitest", "run", "test/unit/worker", "test/unit/cli/local"]],
    { FC_TIMES: "20", FC_SEED: "random" },
  ],
  [
    "interleaving",
    redis("test/integration/verbs/interleaving.test.ts"),
    { FC_RUNS: "600", FC_SEED: "random" },
  ],
  ["destroy", redis("test/chaos/destroy.test.ts"), { DESTROYS: "500" }],
  ["draining", redis("test/chaos/draining.test.ts"), { DRAIN_ROUNDS: "5" }],
  ["stale worker", redis("test/chaos/stale-worker.test.ts"), { STALE_ROUNDS: "100" }],
  ["callers", redis("test/chaos/caller-kills.test.ts"), { CALLER_KILLS: "1000" }],
  ["spellings", redis("test/integration/worker/respelled-messages.test.ts"), { PAYLOADS: "10000" }],
  ["answers", redis("test/integration/worker/answer-traffic.test.ts"), { ANSWERS: "all" }],
  ["hostile patterns", redis("test/integration/tools/hostile-patterns.test.ts"), { HOSTILE_PATTERNS: "all" }],
  ["examples", redis("test/examples.test.ts"), { EXAMPLES: "processes" }],
  [
    "outage",
    redis("test/integration/worker/provider-limiter.test.ts", "--testNamePattern", "an outage"),
    { LIMITER_OUTAGE_MS: "3600000" },
  ],
  [
    "charges",
    redis("test/integration/worker/charging.test.ts"),
    { DESTROYS: "200", KILLS: "200", LONE_KILLS: "50" },
  ],
  ["isolation of 40", script("test:isolation"), {}],
  [
    "isolation of 200",
    redis("test/integration/worker/isolation.test.ts"),
    {
      ISOLATION_RUNS: "200",
      ISOLATION_RUN_MS: "45000",
      ISOLATION_SPREAD_MS: "40000",
      ISOLATION_PLACES: "70",
      ISOLATION_WORKERS: "4",
    },
  ],
  [
    "isolation under kills",
    script(
      "test:chaos",
      "--isolation",
      "--runs",
      "2500",
      "--kills",
      "1000",
      "--faults",
      "kill",
      "--timing",
      "short",
    ),
    {},
  ],
  ["busy", script("test:busy"), {}],
  ["redis trouble", script("test:redis-trouble", "--long"), {}],
  ["node 24", onImageNode("--project=!on-*", "test/unit", "test/integration"), {}],
  ["embedded", script("test:embedded"), {}],
  ["cluster", script("test:cluster"), {}],
  ["chaos", chaos("--runs", "1000", "--kills", "200"), {}],
  // Fails if the 95th percentile of the times until a run is claimed again exceeds 12 s, or if no run is claimed again.
  ["chaos recovery", chaos("--runs", "300", "--kills", "60", "--faults", "kill,stop,partition"), {}],
  ["chaos clock", chaos("--runs", "300", "--kills", "60", "--faults", "kill,clock"), {}],
  ["chaos mixed fleet", chaos("--runs", "300", "--kills", "60", "--fleet", "mixed"), {}],
  ["chaos without stalled check", chaos("--runs", "300", "--kills", "60", "--no-stalled-check"), {}],
  [
    "chaos slow models",
    chaos("--runs", "60", "--kills", "12", "--latency", "10000-60000", "--isolation"),
    {},
  ],
  ["bench", script("bench", "--parts=ratio", "--only=queue", "--gate"), {}],
  ["soak", script("test:soak", "--minutes", "120"), {}],
];

const [wanted = ""] = process.argv.slice(2);
const chosen = FORMS.filter(([name]) => name.includes(wanted));
if (chosen.length === 0) {
  process.stderr.write(`No long form is called ${wanted}: ${FORMS.map(([name]) => name).join(", ")}\n`);
  process.exit(2);
}
const failed = chosen.filter(([name, [command, args], env]) => {
  process.stdout.write(`\n== ${name}\n`);
  return (
    spawnSync(command, args, { stdio: "inherit", env: { ...process.env, JUDGE_TIMES: "1", ...env } })
      .status !== 0
  );
});
process.stdout.write(`\n${chosen.length - failed.length} long forms passed, ${failed.length} failed\n`);
process.exitCode = failed.length > 0 ? 1 : 0;
