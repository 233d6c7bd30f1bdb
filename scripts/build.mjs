/**
 * Builds dist/ from src/: runs tsc, then bundles the modules and the Lua scripts with esbuild.
 *
 * 1. A finished build replaces dist/ in one step; a failed build does not change the old dist/.
 * 2. `--if-changed` does nothing if dist/ was built from exactly these sources, so that `npm test` does not replace the
 *    files of a running service.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, extname, join, relative } from "node:path";
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

/** Programs that the code starts by their file names, from the folder of the bundled modules. */
const programs = [
  "cli/local/embedded-redis-child.js",
  "worker/health/watchdog-thread.js",
  "worker/tools/search/matcher-process.js",
];
/** Folder of the bundled modules within dist/. It has no folders, so a module finds a program beside itself, as in src/. */
const bundleFolder = "bundle";
/** Module that the entry point for bundlers loads before the parent's side. */
const forBundlers = "bundled.js";

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
  const exists = (path) => existsSync(join(target, path));
  const entries = [...doors, ...commands, forBundlers].filter(exists);
  const nameOf = (path) => path.slice(0, -extname(path).length).replaceAll("/", "-");
  await bundle({
    entryPoints: [
      ...entries.map((path) => ({ in: join(target, path), out: nameOf(path) })),
      ...programs.filter(exists).map((path) => ({ in: join(target, path), out: basename(path, ".js") })),
    ],
    outdir: join(target, bundleFolder),
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    sourcemap: true,
    logLevel: "warning",
    plugins: [luaTexts],
  });
  for (const file of readdirSync(target, { recursive: true }))
    if (!file.startsWith(`${bundleFolder}/`) && /\.js(\.map)?$/.test(file)) rmSync(join(target, file));
  for (const path of entries) {
    const up = relative(dirname(path), bundleFolder);
    const from = `${up.startsWith(".") ? up : `./${up}`}/${nameOf(path)}.js`;
    const opening = commands.includes(path) ? "#!/usr/bin/env node\n" : "";
    const ending = path === forBundlers ? 'export * from "./index.js";\n' : "";
    writeFileSync(join(target, path), `${opening}export * from "${from}";\n${ending}`);
    if (commands.includes(path)) chmodSync(join(target, path), 0o755);
  }
}

/** Puts the texts of the Lua files in the place of the module that reads them. */
const luaTexts = {
  name: "lua-texts",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]lua-files\.js$/ }, () => {
      const folder = join(root, "src/shared/redis/lua");
      const texts = Object.fromEntries(
        readdirSync(folder, { recursive: true })
          .filter((file) => file.endsWith(".lua"))
          .map((file) => [file.slice(0, -".lua".length), readFileSync(join(folder, file), "utf8")]),
      );
      const contents = `const TEXTS = ${JSON.stringify(texts)};\nexport const luaFile = (name) => TEXTS[name];\n`;
      return { contents, loader: "js" };
    });
  },
};

/** Builds in a folder beside dist/, then renames it to dist/; as a sibling, the paths in its source maps stay right. */
async function build(digest) {
  const fresh = `${dist}.new-${process.pid}`;
  const old = `${dist}.old-${process.pid}`;
  try {
    compile(fresh);
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
    if (!process.argv.includes("--if-changed") || !isBuiltFrom(digest)) await build(digest);
  }
} catch (failure) {
  process.stderr.write(`build failed: ${failure.message}\n`);
  process.exitCode = 1;
}
