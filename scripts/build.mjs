/**
 * Builds dist/ from src/: tsc, then the Lua scripts that tsc leaves behind. Uses nothing but Node and tsc.
 *
 * 1. dist/ is replaced in one step by a finished build; a failed one leaves the old dist/ alone.
 * 2. With `--if-changed` nothing happens when dist/ was built from exactly these sources, so that a running
 *    service never has its files exchanged by somebody's `npm test`.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");
const digestFile = ".build-digest";
/** Build inputs besides src/. The lock file stands for the compiler's version. */
const inputs = [
  "tsconfig.json",
  "tsconfig.build.json",
  "package.json",
  "package-lock.json",
  "scripts/build.mjs",
];

function sourceFiles() {
  return readdirSync(join(root, "src"), { recursive: true })
    .map((name) => join("src", name))
    .filter((path) => statSync(join(root, path)).isFile())
    .sort();
}

function digestOf(files) {
  const hash = createHash("sha256");
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update("\0");
  return hash.digest("hex");
}

function isBuiltFrom(digest) {
  const file = join(dist, digestFile);
  return existsSync(file) && readFileSync(file, "utf8") === digest;
}

function compile(target) {
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const options = ["-p", join(root, "tsconfig.build.json"), "--outDir", target];
  const { status } = spawnSync(process.execPath, [tsc, ...options], { cwd: root, stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new Error("tsc found errors; dist/ was left as it was");
}

function copyLua(files, target) {
  for (const file of files.filter((name) => name.endsWith(".lua"))) {
    const copy = join(target, file.slice("src/".length));
    mkdirSync(dirname(copy), { recursive: true });
    copyFileSync(join(root, file), copy);
  }
}

function makeExecutable(target) {
  const { bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const path of Object.values(bin)) {
    const file = join(target, path.slice("dist/".length));
    if (existsSync(file)) chmodSync(file, 0o755);
  }
}

/** The new build stands beside dist/ until it is whole; paths in its source maps stay right that way. */
function build(files, digest) {
  const fresh = `${dist}.new-${process.pid}`;
  const old = `${dist}.old-${process.pid}`;
  try {
    compile(fresh);
    copyLua(files, fresh);
    makeExecutable(fresh);
    writeFileSync(join(fresh, digestFile), digest);
    if (existsSync(dist)) renameSync(dist, old);
    renameSync(fresh, dist);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(old, { recursive: true, force: true });
  }
}

try {
  if (existsSync(join(root, "src"))) {
    const files = sourceFiles();
    const digest = digestOf([...files, ...inputs]);
    if (!process.argv.includes("--if-changed") || !isBuiltFrom(digest)) build(files, digest);
  }
} catch (failure) {
  process.stderr.write(`build failed: ${failure.message}\n`);
  process.exitCode = 1;
}
