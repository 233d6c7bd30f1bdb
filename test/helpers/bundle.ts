/**
 * Bundles a TypeScript program with esbuild, so that Node can start it. A loader that compiles each source in each process
 * costs a worker 2.4 s of CPU instead of 0.5 s.
 *
 * 1. A bundle is always made of the current sources: a changed source rebuilds it, otherwise all processes and all later
 *    runs reuse it.
 * 2. A module still finds files beside its source: `import.meta` refers to the source.
 * 3. The packages that are slowest to load are bundled once for all programs, into one script that V8 compiles once
 *    (`fixtures/load-packages.cjs`). All other packages are loaded from where they are installed.
 */
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, extname, join, parse, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildOptions, build, type OutputFile, type Plugin } from "esbuild";

const repositoryRoot = join(import.meta.dirname, "..", "..");
/** The cache folder, below `node_modules` so that bundles can resolve packages. */
const folder = join(repositoryRoot, "node_modules", ".cache", "test-programs");
const loader = join(import.meta.dirname, "fixtures", "load-packages.cjs");

/** The packages that programs load as one precompiled script. Loading them is half the cost of starting a worker. */
const HEAVY = [
  "@anthropic-ai/sdk",
  "@cfworker/json-schema",
  "@modelcontextprotocol/client",
  "@modelcontextprotocol/client/stdio",
  "@modelcontextprotocol/server",
  "@modelcontextprotocol/server/ext/skills",
  "@modelcontextprotocol/server/ext/skills/node",
  "bullmq",
  "commander",
  "ignore",
  "ioredis",
  "ipaddr.js",
  "picomatch",
  "prom-client",
  "rate-limiter-flexible",
  "re2js",
  "string-width",
  "undici",
  "wrap-ansi",
  "zod",
];

/** The stored record of a bundle. */
interface Made {
  program: string;
  /** Digest of each source, by its path. */
  sources: Record<string, string>;
}

/**
 * Returns the path of the bundle of `entry`, a `.ts` file or a file of `dist`; relative paths start at the root. Builds the
 * bundle unless one of the same sources exists.
 */
export async function bundled(entry: string): Promise<string> {
  const path = resolve(repositoryRoot, entry);
  const packages = await heavyPackages();
  const record = join(folder, `${parse(path).name}-${digest(`${path}\0${packages}`)}.json`);
  const made: Made | undefined = existsSync(record) ? JSON.parse(readFileSync(record, "utf8")) : undefined;
  if (made && existsSync(made.program) && Object.entries(made.sources).every(isUnchanged))
    return made.program;
  return bundle(path, packages, record);
}

async function bundle(entry: string, packages: string, record: string): Promise<string> {
  const { outputFiles, metafile } = await build({
    ...OPTIONS,
    entryPoints: [entry],
    // A built program sees the path of its installed entry in `process.argv`.
    ...(extname(entry) === ".js" && { banner: { js: `process.argv[1] = ${JSON.stringify(entry)};` } }),
    packages: "external",
    absWorkingDir: repositoryRoot,
    metafile: true,
    plugins: [heavyFrom(packages), ownPlaces],
  });
  const name = parse(entry).name;
  const texts = outputFiles.map(({ path, text }) => `${path}\0${text}`);
  const place = join(folder, `${name}-${digest(texts.join("\0"))}`);
  if (!existsSync(place)) write(outputFiles, place);
  const program = join(place, `${name}.mjs`);
  const sources = Object.keys(metafile.inputs).map((path) => join(repositoryRoot, path));
  const made: Made = {
    program,
    sources: Object.fromEntries(sources.map((path) => [path, digest(readFileSync(path))])),
  };
  const unfinished = `${record}.${process.pid}`;
  writeFileSync(unfinished, JSON.stringify(made));
  renameSync(unfinished, record);
  return program;
}

const OPTIONS = {
  bundle: true,
  // Modules that a program imports dynamically stay separate files.
  splitting: true,
  platform: "node",
  format: "esm",
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  write: false,
} satisfies BuildOptions;

/** Returns a folder with a module for each heavy package. Builds it unless it exists for the installed packages. */
export async function heavyPackages(): Promise<string> {
  const made = [import.meta.filename, loader, join(repositoryRoot, "package-lock.json")].map((file) =>
    readFileSync(file),
  );
  const place = join(folder, `packages-${digest(Buffer.concat(made))}`);
  if (existsSync(place)) return place;
  const each = HEAVY.map((name) => `"${name}": () => require("${name}")`);
  const { outputFiles } = await build({
    ...OPTIONS,
    splitting: false,
    format: "cjs",
    stdin: { contents: `export const packages = {${each.join(", ")}};`, resolveDir: repositoryRoot },
    conditions: ["import"],
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: true,
  });
  const script = `(function (exports, require, module, __filename, __dirname) {${outputFiles[0]?.text}\n})`;
  const shims = await Promise.all(HEAVY.map(async (name) => [moduleOf(name), await shimOf(name)]));
  const files = [["packages.cjs", script], ["load.cjs", readFileSync(loader, "utf8")], ...shims];
  write(
    files.map(([path = "", text = ""]) => ({ path, contents: Buffer.from(text) })),
    place,
  );
  return place;
}

const moduleOf = (name: string) => `${name.replaceAll(/\W/g, "-")}.mjs`;

/** Returns the source of the module that exports a heavy package, with the same names and default as the installed one. */
async function shimOf(name: string): Promise<string> {
  const { default: whole, ...rest }: Record<string, unknown> = await import(name);
  const names = Object.keys(rest).filter((key) => key !== "module.exports");
  return [
    'import loaded from "./load.cjs";',
    `const all = loaded.packages["${name}"]();`,
    // Exported names may be reserved words such as `enum`.
    ...names.map((key, index) => `const e${index} = all["${key}"]; export { e${index} as ${key} };`),
    // The default export of a CommonJS module is the whole module.
    ...(whole === undefined
      ? []
      : [`export default ${"__esModule" in rest} || !all.__esModule ? all : all.default;`]),
  ].join("\n");
}

function heavyFrom(packages: string): Plugin {
  return {
    name: "heavy-packages",
    setup({ onResolve }) {
      onResolve({ filter: /^[@\w][^:]*$/ }, ({ path }) =>
        HEAVY.includes(path) ? { path: join(packages, moduleOf(path)), external: true } : undefined,
      );
    },
  };
}

const isUnchanged = ([path, before]: readonly [string, string]) =>
  existsSync(path) && digestOf(path) === before;

/** Cache of file digests: most programs are started more than once. */
const seen = new Map<string, { stamp: string; digest: string }>();

function digestOf(path: string): string {
  const { ino, size, mtimeMs, ctimeMs } = statSync(path);
  const stamp = [ino, size, mtimeMs, ctimeMs].join();
  const before = seen.get(path);
  if (before?.stamp === stamp) return before.digest;
  const now = digest(readFileSync(path));
  seen.set(path, { stamp, digest: now });
  return now;
}

const digest = (what: string | Buffer) => createHash("sha256").update(what).digest("hex").slice(0, 16);

/** Writes the files into a temporary folder and renames it, because another process may build the same program. */
function write(files: readonly Pick<OutputFile, "path" | "contents">[], place: string): void {
  mkdirSync(folder, { recursive: true });
  const unfinished = mkdtempSync(`${place}.`);
  chmodSync(unfinished, 0o755);
  for (const { path, contents } of files) writeFileSync(join(unfinished, basename(path)), contents);
  try {
    renameSync(unfinished, place);
  } catch (error) {
    rmSync(unfinished, { recursive: true });
    if (!existsSync(place)) throw error;
  }
}

const ownPlaces: Plugin = {
  name: "own-places",
  setup({ onLoad }) {
    onLoad({ filter: /\.[jt]s$/ }, ({ path }) => ({
      loader: "ts",
      contents: readFileSync(path, "utf8").replaceAll(
        /\bimport\.meta\.(url|dirname|filename)\b/g,
        (_, what: "url" | "dirname" | "filename") => JSON.stringify(placesOf(path)[what]),
      ),
    }));
  },
};

const placesOf = (path: string) => ({
  url: pathToFileURL(path).href,
  dirname: dirname(path),
  filename: path,
});
