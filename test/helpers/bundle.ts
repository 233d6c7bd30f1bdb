/**
 * A TypeScript program as something that Node can start: the sources put together by esbuild. To compile each source anew in
 * each process, as a loader does, costs a worker 2.4 s of CPU instead of 0.5 s.
 *
 * 1. A program is made from the sources as they are now: a changed one makes it anew, an unchanged one is found again by all
 *    processes and all later runs.
 * 2. A module goes on to find what lies beside its source: `import.meta` names the source.
 * 3. The packages that cost most to load are put together once for all programs; the others are loaded as they are installed.
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
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildOptions, build, type OutputFile, type Plugin } from "esbuild";

const repositoryRoot = join(import.meta.dirname, "..", "..");
/** Below `node_modules`, so that packages are found from here. */
const folder = join(repositoryRoot, "node_modules", ".cache", "test-programs");

/** The packages that a program reads as one file: a third of what it costs to start a worker. */
const HEAVY = ["@anthropic-ai/sdk", "bullmq", "ioredis", "undici", "zod"];

/** What was written down about a program when it was made. */
interface Made {
  program: string;
  /** Digest of each source, by its path. */
  sources: Record<string, string>;
}

/**
 * The path of the bundle of `entry`, a `.ts` file; relative ones count from the root. It is made now unless it was made of these
 * very sources before.
 */
export async function bundled(entry: string): Promise<string> {
  const path = resolve(repositoryRoot, entry);
  const packages = await heavyPackages();
  const record = join(folder, `${basename(path, ".ts")}-${digest(`${path}\0${packages}`)}.json`);
  const made: Made | undefined = existsSync(record) ? JSON.parse(readFileSync(record, "utf8")) : undefined;
  if (made && existsSync(made.program) && Object.entries(made.sources).every(isUnchanged))
    return made.program;
  return bundle(path, packages, record);
}

async function bundle(entry: string, packages: string, record: string): Promise<string> {
  const { outputFiles, metafile } = await build({
    ...OPTIONS,
    entryPoints: [entry],
    packages: "external",
    absWorkingDir: repositoryRoot,
    metafile: true,
    plugins: [heavyFrom(packages), ownPlaces],
  });
  const name = basename(entry, ".ts");
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
  // What a program loads late stays apart.
  splitting: true,
  platform: "node",
  format: "esm",
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  write: false,
} satisfies BuildOptions;

/** The folder in which each of the heavy packages is a module, made once for what is installed now. */
async function heavyPackages(): Promise<string> {
  const made = [import.meta.filename, join(repositoryRoot, "package-lock.json")].map((file) =>
    readFileSync(file),
  );
  const place = join(folder, `packages-${digest(Buffer.concat(made))}`);
  if (existsSync(place)) return place;
  const modules = await Promise.all(
    HEAVY.map(async (name) => {
      const exported = Object.keys(await import(name)).filter((key) => key !== "module.exports");
      return [moduleOf(name), `export { ${exported.join(", ")} } from "${name}";`] as const;
    }),
  );
  const texts = new Map(modules);
  const { outputFiles } = await build({
    ...OPTIONS,
    entryPoints: [...texts.keys()],
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: true,
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
    plugins: [modulesOf(texts)],
  });
  write(outputFiles, place);
  return place;
}

const moduleOf = (name: string) => `${name.replaceAll(/\W/g, "-")}.mjs`;

/** Entries that are texts. */
function modulesOf(texts: ReadonlyMap<string, string>): Plugin {
  return {
    name: "modules",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /\.mjs$/ }, ({ path, kind }) =>
        kind === "entry-point" ? { path, namespace: "modules" } : undefined,
      );
      onLoad({ filter: /./, namespace: "modules" }, ({ path }) => ({
        contents: texts.get(path) ?? "",
        resolveDir: repositoryRoot,
      }));
    },
  };
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
  existsSync(path) && digest(readFileSync(path)) === before;

const digest = (what: string | Buffer) => createHash("sha256").update(what).digest("hex").slice(0, 16);

/** All at once: another process may make the same program. */
function write(files: readonly OutputFile[], place: string): void {
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
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
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
