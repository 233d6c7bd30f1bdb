/**
 * Builds dist/ from src/: runs tsc, copies the Lua scripts, then bundles the modules with esbuild.
 *
 * 1. A finished build replaces dist/ in one step; a failed build does not change the old dist/.
 * 2. `--if-changed` does nothing if dist/ was built from exactly these sources, so that `npm test` does not replace the
 *    files of a running service.
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
import { dirname, extname, join, relative } from "node:path";
import { build as bundle } from "esbuild";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");
const digestFile = ".build-digest";
/** Build inputs besides src/. The lock file has the compiler's version. */
const inputs = [
  "tsconfig.json",
  "tsconfig.build.json",
  "package.json",
  "package-lock.json",
  "scripts/build.mjs",
];

/** Programs that the code starts by their file names. */
const programs = [
  "cli/local/embedded-redis-child.js",
  "worker/health/watchdog-thread.js",
  "worker/tools/search/matcher-process.js",
];
/** Folder of the bundled modules within dist/. */
const bundleFolder = "bundle";

const manifest = () => JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

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
  const options = ["-p", join(root, "tsconfig.build.json"), "--outDir", target, "--checkers", "2"];
  // tsc lives for seconds: collecting garbage below a GiB costs a quarter of its CPU time, four checkers instead of two a fifth.
  const env = { GOGC: "off", GOMEMLIMIT: "1GiB", ...process.env };
  const { status } = spawnSync(process.execPath, [tsc, ...options], {
    cwd: root,
    env,
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) throw new Error("tsc found errors; dist/ was left as it was");
}

function copyLua(files, target) {
  for (const file of files.filter((name) => name.endsWith(".lua"))) {
    const copy = join(target, file.slice("src/".length));
    mkdirSync(dirname(copy), { recursive: true });
    copyFileSync(join(root, file), copy);
  }
}

/**
 * Bundles the modules of the entry points, so that a process reads tens of files instead of hundreds: that is half the time of
 * importing this package. Code that entry points share stays one module, so that all of them have the same classes. Each entry
 * point keeps its path and exports its part of the bundle.
 */
async function putTogether(target) {
  const { exports, bin } = manifest();
  const inDist = (path) => path.replace(/^(\.\/)?dist\//, "");
  const commands = Object.values(bin).map(inDist);
  const doors = Object.values(exports).flatMap((door) => (door.default ? [inDist(door.default)] : []));
  const entries = [...doors, ...commands, ...programs].filter((path) => existsSync(join(target, path)));
  const nameOf = (path) => path.slice(0, -extname(path).length).replaceAll("/", "-");
  await bundle({
    entryPoints: entries.map((path) => ({ in: join(target, path), out: nameOf(path) })),
    outdir: join(target, bundleFolder),
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    sourcemap: true,
    logLevel: "warning",
    plugins: [ownPlaces(target)],
  });
  for (const file of readdirSync(target, { recursive: true }))
    if (!file.startsWith(bundleFolder) && /\.js(\.map)?$/.test(file)) rmSync(join(target, file));
  for (const path of entries) {
    const up = relative(dirname(path), bundleFolder);
    const from = `${up.startsWith(".") ? up : `./${up}`}/${nameOf(path)}.js`;
    const opening = commands.includes(path) ? "#!/usr/bin/env node\n" : "";
    writeFileSync(join(target, path), `${opening}export * from "${from}";\n`);
    if (commands.includes(path)) chmodSync(join(target, path), 0o755);
  }
}

/** Keeps `import.meta` paths valid in the bundle: each module sees its original place in dist/. */
function ownPlaces(target) {
  return {
    name: "own-places",
    setup({ onLoad }) {
      onLoad({ filter: /\.js$/ }, ({ path }) => {
        const place = `../${relative(target, path)}`;
        const contents = readFileSync(path, "utf8")
          .replaceAll("import.meta.url", `new URL("${place}", import.meta.url).href`)
          .replaceAll("import.meta.filename", `(import.meta.dirname + "/${place}")`)
          .replaceAll(/import\.meta\.dirname(?! \+)/g, `(import.meta.dirname + "/${dirname(place)}")`);
        return { contents, loader: "js" };
      });
    },
  };
}

/** Builds in a folder beside dist/, then renames it to dist/; as a sibling, the paths in its source maps stay right. */
async function build(files, digest) {
  const fresh = `${dist}.new-${process.pid}`;
  const old = `${dist}.old-${process.pid}`;
  try {
    compile(fresh);
    copyLua(files, fresh);
    await putTogether(fresh);
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
    if (!process.argv.includes("--if-changed") || !isBuiltFrom(digest)) await build(files, digest);
  }
} catch (failure) {
  process.stderr.write(`build failed: ${failure.message}\n`);
  process.exitCode = 1;
}
