/**
 * Runs `npm ci` if node_modules differs from package-lock.json, and prints one line about it; otherwise prints nothing.
 * Uses only Node, because it must work before packages are installed.
 * Compares contents, not file dates, because a fresh checkout can have any dates.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** Returns the reason for an install, as the end of a sentence; undefined if none is needed. */
function reasonToInstall() {
  const wanted = packagesIn(join(root, "package-lock.json"));
  if (wanted === undefined) return undefined;
  const installed = packagesIn(join(root, "node_modules", ".package-lock.json"));
  if (installed === undefined) return "nothing is installed yet";
  for (const [path, entry] of Object.entries(wanted)) {
    // npm skips optional packages that do not support the platform.
    if (path === "" || (entry.optional && installed[path] === undefined)) continue;
    if (installed[path]?.version !== entry.version) return `${path} differs from package-lock.json`;
  }
  const left = Object.keys(installed).find((path) => wanted[path] === undefined);
  return left === undefined ? undefined : `${left} is no longer in package-lock.json`;
}

function packagesIn(lockFile) {
  try {
    return JSON.parse(readFileSync(lockFile, "utf8")).packages;
  } catch {
    return undefined;
  }
}

/** Runs `npm ci` with the npm that runs this script, else `npm` from the PATH. No dependency needs an install script. */
function npmCi() {
  const options = ["ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const npmCli = process.env.npm_execpath;
  // npm's report goes to stderr, so that stdout has only the output of the user's command.
  const stdio = ["ignore", 2, 2];
  if (npmCli?.endsWith("npm-cli.js")) {
    return spawnSync(process.execPath, [npmCli, ...options], { cwd: root, stdio });
  }
  return spawnSync("npm", options, { cwd: root, stdio });
}

const reason = reasonToInstall();
if (reason !== undefined) {
  process.stderr.write(`installing dependencies with npm ci (${reason})\n`);
  const { status, error } = npmCi();
  if (error !== undefined) process.stderr.write(`npm could not be started: ${error.message}\n`);
  process.exitCode = status ?? 1;
}
