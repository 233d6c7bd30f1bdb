/**
 * A TypeScript program as something that Node can start: the sources put together by esbuild, packages left out. To compile each
 * source anew in each process, as a loader does, costs a worker 2.4 s of CPU instead of 0.8 s.
 *
 * 1. A process bundles a program once, from the sources as they are then. Equal programs are one directory, whichever process makes it.
 * 2. A module goes on to find what lies beside its source: `import.meta` names the source.
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
import { build, type OutputFile, type Plugin } from "esbuild";

const repositoryRoot = join(import.meta.dirname, "..", "..");
/** Below `node_modules`, so that packages are found from here. */
const folder = join(repositoryRoot, "node_modules", ".cache", "test-programs");
const programs = new Map<string, Promise<string>>();

/** The path of the bundle of `entry`, a `.ts` file; relative ones count from the root. */
export function bundled(entry: string): Promise<string> {
  const path = resolve(repositoryRoot, entry);
  const program = programs.get(path) ?? bundle(path);
  programs.set(path, program);
  return program;
}

async function bundle(entry: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    // What a program loads late stays apart.
    splitting: true,
    platform: "node",
    format: "esm",
    packages: "external",
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    write: false,
    plugins: [ownPlaces],
  });
  const hash = createHash("sha256");
  for (const { path, text } of outputFiles) hash.update(path).update(text);
  const name = basename(entry, ".ts");
  const place = join(folder, `${name}-${hash.digest("hex").slice(0, 16)}`);
  if (!existsSync(place)) write(outputFiles, place);
  return join(place, `${name}.mjs`);
}

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
