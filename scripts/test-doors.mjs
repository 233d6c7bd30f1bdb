/**
 * Runs the long forms of the interface tests, with their figures: `npm run test:doors`; with `-- <word>` those whose name
 * contains it. First installs the official MCP conformance suite and inspector in the cache: 144 MB, used only here.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const PLACE = join(root, "node_modules", ".cache", "doors");
/** Fixed versions, because the tags `latest` lack the newest revision of the protocol. */
const PROGRAMS = [
  "@modelcontextprotocol/conformance@0.2.0-alpha.12",
  "@modelcontextprotocol/inspector@2.12.0",
];

/** Name, vitest arguments, and the environment variables of the long form. */
const FORMS = [
  ["mcp conformance", ["test/doors/long/conformance.test.ts"], {}],
  ["mcp inspector", ["test/doors/long/inspector.test.ts"], {}],
  [
    "webhooks",
    ["test/integration/service/webhooks.test.ts", "-t", "killed at random"],
    { SUBAGENT_TEST_WEBHOOKS: "10000" },
  ],
  ["five by five", ["test/doors/crossing.test.ts"], {}],
  ["at once", ["test/doors/long/at-once.test.ts"], {}],
  ["event stream", ["test/doors/long/event-stream.test.ts"], {}],
  ["latency", ["test/doors/long/latency.test.ts"], {}],
  ["mcp kills", ["test/doors/mcp-kills.test.ts"], { MCP_KILLS: "50" }],
];

const seed = process.env.SEED ?? String(Date.now() % 1_000_000);
const env = { ...process.env, SUBAGENT_TEST_DOORS: "whole", SEED: seed };
const run = (command, args, more = {}) =>
  spawnSync(command, args, { cwd: root, stdio: "inherit", ...more }).status === 0;

const [wanted = ""] = process.argv.slice(2);
const chosen = FORMS.filter(([name]) => name.includes(wanted));
if (chosen.length === 0) {
  process.stderr.write(`No long form is called ${wanted}: ${FORMS.map(([name]) => name).join(", ")}\n`);
  process.exit(2);
}
mkdirSync(PLACE, { recursive: true });
writeFileSync(join(PLACE, "package.json"), '{ "private": true }\n');
const install = [
  "install",
  "--ignore-scripts",
  "--no-audit",
  "--no-fund",
  "--loglevel=error",
  "--save-exact",
];
const isReady =
  run("npm", [...install, ...PROGRAMS], { cwd: PLACE }) && run("node", ["scripts/build.mjs", "--if-changed"]);
if (!isReady) process.exit(1);
const failed = chosen.filter(([name, files, more]) => {
  process.stdout.write(`\n== ${name}, seed ${seed}\n`);
  return !run("npx", ["vitest", "run", "--project", "redis", ...files], { env: { ...env, ...more } });
});
process.stdout.write(`\n${chosen.length - failed.length} long forms passed, ${failed.length} failed\n`);
process.exitCode = failed.length > 0 ? 1 : 0;
