/**
 * Runs the tests of the verbs, the parent's side and the origins on Valkey. The server is VALKEY_SERVER_BIN, a
 * `valkey-server` on the PATH, or Debian's package, unpacked into a temporary directory without root. Without any of them
 * it prints a note and skips the tests.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const TESTS = ["test/integration/verbs", "test/integration/producer", "test/integration/origins"];
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const root = join(import.meta.dirname, "..");

const say = (line) => process.stdout.write(`${line}\n`);
const run = (command, args, cwd) => spawnSync(command, args, { cwd, encoding: "utf8" });
const answers = (binary) => run(binary, ["--version"]).status === 0;

/** Unpacks the server of Debian's package under `directory`; returns its path, or undefined if the package is not available. */
function unpack(directory) {
  const sites = run("apt-get", ["indextargets", "--format", "$(SITE)", "Created-By: Packages"]);
  const site = sites.stdout?.split("\n").find((each) => each !== "" && !each.includes("security"));
  if (site === undefined || !existsSync(KEYRING)) return undefined;
  const [apt, debs, files] = ["apt", "debs", "root"].map((name) => join(directory, name));
  for (const place of ["lists/partial", "cache/archives/partial"])
    mkdirSync(join(apt, place), { recursive: true });
  mkdirSync(debs);
  const sources = join(apt, "sources.list");
  writeFileSync(sources, `deb [signed-by=${KEYRING}] ${site} bookworm-backports main\n`);
  const options = [
    `Dir::Etc::sourcelist=${sources}`,
    "Dir::Etc::sourceparts=/dev/null",
    `Dir::State::lists=${join(apt, "lists")}`,
    `Dir::Cache=${join(apt, "cache")}`,
  ].flatMap((option) => ["-o", option]);
  if (run("apt-get", [...options, "-qq", "update"]).status !== 0) return undefined;
  if (run("apt-get", [...options, "-qq", "download", "valkey-tools"], debs).status !== 0) return undefined;
  for (const name of readdirSync(debs)) run("dpkg", ["-x", join(debs, name), files]);
  // Valkey's programs are one binary; the name of the call decides its role.
  const binary = join(directory, "valkey-server");
  symlinkSync(join(files, "usr", "bin", "valkey-check-rdb"), binary);
  return answers(binary) ? binary : undefined;
}

const directory = mkdtempSync(join(tmpdir(), "valkey-"));
try {
  const named = [process.env.VALKEY_SERVER_BIN, "valkey-server"].find((each) => each && answers(each));
  const binary = named ?? unpack(directory);
  if (binary === undefined)
    say("skipped: no valkey-server on the PATH, and Debian's package cannot be had here");
  else {
    say(run(binary, ["--version"]).stdout.trim());
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
    const tests = process.argv.length > 2 ? process.argv.slice(2) : TESTS;
    const env = { ...process.env, REDIS_SERVER_BIN: binary };
    const args = [vitest, "run", "--project", "redis", ...tests];
    const { status } = spawnSync(process.execPath, args, { cwd: root, env, stdio: "inherit" });
    process.exitCode = status ?? 1;
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
