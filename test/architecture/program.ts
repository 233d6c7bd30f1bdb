/**
 * Opens the compiler's program: every file it compiles, with every name resolved. The rules read all files that `tsc` reads,
 * whatever their extension. The compiler's API for this is marked unstable, so package.json pins its exact version. Only this
 * file uses the API; the rules use its node types.
 */
import { relative, sep } from "node:path";
import {
  escapeLeadingUnderscores,
  isImportDeclaration,
  isImportSpecifier,
  type Node,
} from "typescript/unstable/ast";
import { API, type Checker, type Symbol as Named, type Program, SymbolFlags } from "typescript/unstable/sync";
import { importsOf, type Meaning, type Source } from "./source.ts";
import { isDeclared, namesIn, type Symbols, symbolsOf } from "./symbols.ts";

/** Options of {@link openProgram}. */
export interface ProgramOptions {
  /** Directory of the repository; paths of sources are relative to it. */
  root: string;
  /** Absolute path of its tsconfig. */
  config: string;
}

/** The open program; its sources are valid until `close`. */
export interface OpenProgram {
  sources: readonly Source[];
  close(): void;
}

/** Compiles without emitting. Throws a SyntaxError with the file's name if a file has a syntax error. */
export function openProgram({ root, config }: ProgramOptions): OpenProgram {
  const api = startCompiler(root);
  try {
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
    if (project === undefined) throw new TypeError(`${config} is no project`);
    const { program, checker } = project;
    refuseBrokenSyntax(program);
    const own = program.getSourceFileNames().filter((name) => !name.includes("/node_modules/"));
    return { sources: readSources(root, own, program, checker), close: () => api.close() };
  } catch (failure) {
    api.close();
    throw failure;
  }
}

/**
 * Starts the compiler's process. It lives for seconds, and collecting its garbage would take a third of its CPU time, so it
 * collects only above a GiB. The API has no option for its environment, so ours is changed while the process starts.
 */
function startCompiler(root: string): API {
  const given = { GOGC: process.env.GOGC, GOMEMLIMIT: process.env.GOMEMLIMIT };
  Object.assign(process.env, { GOGC: "off", GOMEMLIMIT: "1GiB" });
  try {
    return new API({ cwd: root });
  } finally {
    for (const [name, value] of Object.entries(given)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

function refuseBrokenSyntax(program: Program): void {
  const [first] = program.getSyntacticDiagnostics();
  if (first !== undefined) throw new SyntaxError(`${first.fileName}: ${first.text}`);
}

function readSources(root: string, paths: readonly string[], program: Program, checker: Checker): Source[] {
  const symbols = symbolsOf(checker);
  const follow = aliasFollower(root, checker, symbols);
  const files = paths.flatMap((name) => {
    const file = program.getSourceFile(name);
    return file === undefined ? [] : [{ path: pathIn(root, name), file, names: namesIn(file) }];
  });
  symbols.ask(files.flatMap(({ names }) => [...names.modules, ...names.imported.map(names.standsFor)]));
  return files.map(({ path, file, names }) => {
    const meaningOf = (node: Node): Meaning | undefined =>
      isDeclared(node) ? { home: path, name: node.text } : follow(names.standsFor(node));
    const resolve = (specifier: Node): string | undefined => {
      const home = meaningOf(specifier)?.home;
      return home?.includes("/") && !home.startsWith("@") ? home : undefined;
    };
    const ask = (nodes: readonly Node[]) => symbols.ask(nodes.map(names.standsFor));
    const imports = importsOf(path, names.nodes, resolve);
    return { ...names, path, text: file.text, file, imports, checker, meaningOf, ask };
  });
}

function aliasFollower(
  root: string,
  checker: Checker,
  symbols: Symbols,
): (name: Node) => Meaning | undefined {
  const known = new Map<number, Meaning | undefined>();
  return (name) => {
    const symbol = symbols.of(name);
    if (symbol === undefined) return undefined;
    if (!known.has(symbol.id)) {
      const origin = exportOf(name, symbols) ?? symbol;
      const isAlias = (origin.flags & SymbolFlags.Alias) !== 0;
      known.set(symbol.id, meaning(root, isAlias ? checker.getAliasedSymbol(origin) : origin));
    }
    return known.get(symbol.id);
  };
}

/** Returns what the imported module exports by this name. A module's exports are read once, and each alias would be a question. */
function exportOf(name: Node, symbols: Symbols): Named | undefined {
  const specifier = name.parent;
  if (!isImportSpecifier(specifier) || specifier.name !== name) return undefined;
  const statement = specifier.parent.parent.parent;
  const module = isImportDeclaration(statement) ? symbols.of(statement.moduleSpecifier) : undefined;
  const exported = (specifier.propertyName ?? specifier.name).text;
  return module?.getExports().get(escapeLeadingUnderscores(exported));
}

function meaning(root: string, origin: Named): Meaning | undefined {
  const declared = origin.declarations[0]?.path;
  // `globalThis` has no declaration.
  if (declared === undefined)
    return origin.name === "globalThis" ? { home: "es", name: "globalThis" } : undefined;
  const home = homeOf(root, declared);
  if (isOwn(home)) return { home, name: origin.name };
  const owner = origin.getParent()?.name;
  const bare = owner === undefined || owner === "__global" || owner.startsWith('"');
  return { home, name: bare ? origin.name : `${owner}.${origin.name}` };
}

function isOwn(home: string): boolean {
  return home.includes("/") && !home.startsWith("@");
}

function homeOf(root: string, declared: string): string {
  const [, inPackages] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(declared) ?? [];
  if (inPackages === undefined) return pathIn(root, declared);
  if (inPackages.startsWith("@typescript/")) return "es";
  return inPackages === "@types/node" || inPackages === "undici-types"
    ? "node"
    : inPackages.replace("@types/", "");
}

function pathIn(root: string, path: string): string {
  return relative(root, path).split(sep).join("/");
}
