/**
 * Runs `npm ci` when node_modules does not hold what package-lock.json asks for, and says so in one line.
 * Uses nothing but Node: it has to work before anything is installed. Silent when all is well.
 * Compares contents, never file dates: a fresh checkout has any date.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** Why an install is needed, as the end of a sentence, or undefined when none is. */
function reasonToInstall() {
  const wanted = packagesIn(join(root, "package-lock.json"));
  if (wanted === undefined) return undefined;
  const installed = packagesIn(join(root, "node_modules", ".package-lock.json"));
  if (installed === undefined) return "nothing is installed yet";
  for (const [path, entry] of Object.entries(wanted)) {
    // Optional packages are left out on platforms they are not made for.
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

/** Prefers the npm that runs us; `npm` from the PATH otherwise. No dependency of ours needs an install script. */
function npmCi() {
  const options = ["ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const npmCli = process.env.npm_execpath;
  // npm's own report goes to stderr, so that stdout belongs to the command the user asked for.
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
