/**
 * Bundles a TypeScript program with esbuild, so that Node can start it. A loader that compiles each source in each process
 * costs a worker 2.4 s of CPU instead of 0.5 s.
 *
 * 1. A bundle is always made of the current sources: a changed source rebuilds it, otherwise all processes and all later
 *    runs reuse it.
 * 2. A module still finds files beside its source: `import.meta` refers to the source.
 * 3. V8 compiles a program once: its code is stored beside it for later processes (`fixtures/load-script.cjs`). The packages
 *    that are slowest to load are such a script too, one for all programs. All other packages are loaded from where they are
 *    installed.
 * 4. A program is CommonJS, because Node 20 stores no code of modules: its entry may await, no other module may.
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
import { type BuildOptions, build, type OutputFile, type Plugin, transform } from "esbuild";

const repositoryRoot = join(import.meta.dirname, "..", "..");
/** The cache folder, below `node_modules` so that bundles can resolve packages. */
const folder = join(repositoryRoot, "node_modules", ".cache", "test-programs");
const loader = join(import.meta.dirname, "fixtures", "load-script.cjs");

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
    // `import()` of a package becomes `require`: in a script it would print a warning.
    supported: { "dynamic-import": false },
    plugins: [heavyFrom(packages), withoutTests, asScript(entry)],
  });
  const name = parse(entry).name;
  const files = scriptOf(outputFiles, `${name}.cjs`);
  const texts = files.map(({ path, contents }) => `${path}\0${contents}`);
  const place = join(folder, `${name}-${digest(texts.join("\0"))}`);
  if (!existsSync(place)) write(files, place);
  const program = join(place, `${name}.cjs`);
  const sources = Object.keys(metafile.inputs)
    .filter((path) => !path.startsWith(NO_TESTS))
    .map((path) => join(repositoryRoot, path));
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
  platform: "node",
  format: "cjs",
  outdir: folder,
  write: false,
} satisfies BuildOptions;

type File = Pick<OutputFile, "path" | "contents">;

/** Returns the script of a build's only output, and its loader under the name `loadedBy`. */
function scriptOf([output]: readonly OutputFile[], loadedBy: string): File[] {
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${output?.text}\n})`;
  return [
    { path: "script.cjs", contents: Buffer.from(wrapped) },
    { path: loadedBy, contents: readFileSync(loader) },
  ];
}

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
    stdin: { contents: `export const packages = {${each.join(", ")}};`, resolveDir: repositoryRoot },
    conditions: ["import"],
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: true,
  });
  const shims = await Promise.all(
    HEAVY.map(async (name) => ({ path: moduleOf(name), contents: Buffer.from(await shimOf(name)) })),
  );
  write([...scriptOf(outputFiles, "load.cjs"), ...shims], place);
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
        HEAVY.includes(path) ? { path: join(packages, moduleOf(path)) } : undefined,
      );
      onResolve({ filter: /^\.\/load\.cjs$/ }, () => ({ path: join(packages, "load.cjs"), external: true }));
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
function write(files: readonly File[], place: string): void {
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

const NO_TESTS = "no-tests";

/** A program runs outside of vitest, which no script can load: there is no running test. */
const withoutTests: Plugin = {
  name: NO_TESTS,
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^vitest$/ }, ({ path }) => ({ path, namespace: NO_TESTS }));
    onLoad({ filter: /^/, namespace: NO_TESTS }, () => ({
      contents: "module.exports = { TestRunner: { getCurrentTest() {} } };",
    }));
  },
};

/** Gives each module its own place, and puts the statements of an entry into a function, so that they may await. */
const asScript = (entry: string): Plugin => ({
  name: "as-script",
  setup({ onLoad }) {
    onLoad({ filter: /\.[jt]s$/ }, async ({ path }) => {
      const source = readFileSync(path, "utf8")
        .replace(/^#!.*/, "")
        .replaceAll(/\bimport\.meta\.(url|dirname|filename)\b/g, (_, what: "url" | "dirname" | "filename") =>
          JSON.stringify(placesOf(path)[what]),
        );
      const mayAwait = path === entry ? !/^export\b/m.test(source) : /^await /m.test(source);
      return { loader: "ts", contents: mayAwait ? await inFunction(source) : source };
    });
  },
});

/** Returns the module with its statements in an async function, behind its imports. */
async function inFunction(source: string): Promise<string> {
  const { code } = await transform(source, { loader: "ts", target: "esnext" });
  const isImport = /^import\b[^;]*;$/gm;
  const imports = code.match(isImport) ?? [];
  const statements = code.replaceAll(isImport, "");
  return `${imports.join("\n")}\n(async () => {${statements}\n})();`;
}

const placesOf = (path: string) => ({
  url: pathToFileURL(path).href,
  dirname: dirname(path),
  filename: path,
});
