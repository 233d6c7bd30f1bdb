/**
 * Opens the compiler's program: every file it compiles, with every name resolved. The rules read all files that `tsc` reads,
 * whatever their extension. The compiler's API for this is marked unstable, so package.json pins its exact version. Only this
 * file uses the API; the rules use its node types.
 */
import { relative, sep } from "node:path";
import {
  isBindingElement,
  isElementAccessExpression,
  isExportSpecifier,
  isIdentifier,
  isObjectBindingPattern,
  isShorthandPropertyAssignment,
  isStringLiteral,
  type Node,
} from "typescript/unstable/ast";
import { API, type Checker, type Symbol as Named, type Program, SymbolFlags } from "typescript/unstable/sync";
import { isOwnList } from "./modules.ts";
import { importsOf, type Meaning, nodesOf, type Source } from "./source.ts";

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
  const api = new API({ cwd: root });
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

function refuseBrokenSyntax(program: Program): void {
  const [first] = program.getSyntacticDiagnostics();
  if (first !== undefined) throw new SyntaxError(`${first.fileName}: ${first.text}`);
}

function readSources(root: string, names: readonly string[], program: Program, checker: Checker): Source[] {
  const follow = aliasFollower(root, checker);
  return names.flatMap((name) => {
    const file = program.getSourceFile(name);
    if (file === undefined) return [];
    const nodes = nodesOf(file);
    const symbols = symbolsIn(nodes, checker);
    const path = pathIn(root, name);
    const meaningOf = (node: Node): Meaning | undefined => {
      const symbol = symbols.get(node);
      return symbol === undefined ? undefined : follow(symbol);
    };
    const resolve = (specifier: Node): string | undefined => {
      const home = meaningOf(specifier)?.home;
      return home?.includes("/") && !home.startsWith("@") ? home : undefined;
    };
    return [
      { path, text: file.text, file, nodes, checker, meaningOf, imports: importsOf(path, nodes, resolve) },
    ];
  });
}

/**
 * Returns the symbol of every name in a file. `{ name }` and `export { name }` resolve to the name's value, not the new key;
 * `const { name } = of` resolves to the property of `of`.
 */
function symbolsIn(nodes: readonly Node[], checker: Checker): Map<Node, Named> {
  const asked = nodes.filter((node) => isIdentifier(node) || isIndexOrModule(node));
  const symbols = new Map<Node, Named>();
  checker.getSymbolAtLocation(asked).forEach((symbol, index) => {
    const node = asked[index];
    if (node === undefined) return;
    const meant = valueSymbol(node, checker) ?? symbol;
    if (meant !== undefined) symbols.set(node, meant);
  });
  return symbols;
}

function valueSymbol(node: Node, checker: Checker): Named | undefined {
  const { parent } = node;
  if (isShorthandPropertyAssignment(parent)) return checker.getShorthandAssignmentValueSymbol(parent);
  if (isExportSpecifier(parent) && isOwnList(parent)) {
    return checker.getExportSpecifierLocalTargetSymbol(parent);
  }
  if (isBindingElement(parent) && isObjectBindingPattern(parent.parent) && isIdentifier(node)) {
    const type = parent.propertyName ? undefined : checker.getTypeAtLocation(parent.parent);
    return type && checker.getPropertyOfType(type, node.text);
  }
  return undefined;
}

function isIndexOrModule(node: Node): boolean {
  if (!isStringLiteral(node) || node.parent === undefined) return false;
  return (
    isElementAccessExpression(node.parent) || "moduleSpecifier" in node.parent || node.text.startsWith(".")
  );
}

function aliasFollower(root: string, checker: Checker): (symbol: Named) => Meaning | undefined {
  const known = new Map<number, Meaning | undefined>();
  return (symbol) => {
    if (!known.has(symbol.id)) known.set(symbol.id, meaning(root, checker, symbol));
    return known.get(symbol.id);
  };
}

function meaning(root: string, checker: Checker, symbol: Named): Meaning | undefined {
  const origin = symbol.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
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
