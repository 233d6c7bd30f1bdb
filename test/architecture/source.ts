/** A source file as the rules see it: parsed once, with its imports resolved to paths of the repository. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { parse } from "@babel/parser";
import { type File, type Node, VISITOR_KEYS } from "@babel/types";

/** A TypeScript file. Paths are relative to the repository's root, with `/`. */
export interface Source {
  path: string;
  text: string;
  ast: File;
  imports: Import[];
}

/** One import, re-export, dynamic import or import type. */
export interface Import {
  /** As written. */
  specifier: string;
  /** Path of the imported file; undefined for packages and built-in modules. */
  target: string | undefined;
  /** Whether nothing of it is left at run time. */
  typeOnly: boolean;
  line: number;
}

/** Something a rule refuses. */
export interface Violation {
  path: string;
  line: number;
  message: string;
}

/** Parses one file. Throws a SyntaxError with the place when it is not TypeScript. */
export function parseSource(path: string, text: string): Source {
  const ast = parse(text, { sourceType: "module", plugins: ["typescript"], sourceFilename: path });
  const imports: Import[] = [];
  walk(ast, (node) => {
    const found = importOf(node);
    if (found === undefined) return;
    const target = found.specifier.startsWith(".")
      ? posix.join(posix.dirname(path), found.specifier)
      : undefined;
    imports.push({ ...found, target, line: lineOf(node) });
  });
  return { path, text, ast, imports };
}

/** Parses every `.ts` file below `folder` of the repository; none when there is no such folder. */
export function readSources(root: string, folder: string): Source[] {
  return listFiles(root, folder)
    .filter((path) => path.endsWith(".ts"))
    .map((path) => parseSource(path, readFileSync(join(root, path), "utf8")));
}

/** Paths of all files below `folder`, sorted; none when there is no such folder. */
export function listFiles(root: string, folder: string): string[] {
  try {
    return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .map((name) => posix.join(folder, name))
      .filter((path) => statSync(join(root, path)).isFile())
      .sort();
  } catch (failure) {
    if (failure instanceof Error && "code" in failure && failure.code === "ENOENT") return [];
    throw failure;
  }
}

/** Calls `visit` for `node` and everything below it, outermost first; `parents` is innermost last. */
function walk(
  node: Node,
  visit: (node: Node, parents: readonly Node[]) => void,
  parents: readonly Node[] = [],
): void {
  visit(node, parents);
  const below = [...parents, node];
  for (const key of VISITOR_KEYS[node.type] ?? []) {
    const child: unknown = Reflect.get(node, key);
    for (const each of Array.isArray(child) ? child : [child]) if (isNode(each)) walk(each, visit, below);
  }
}

/** One violation for each node about which `judge` has something to say. */
export function findNodes(
  sources: readonly Source[],
  judge: (node: Node, parents: readonly Node[], source: Source) => string | undefined,
): Violation[] {
  return sources.flatMap((source) => {
    const found: Violation[] = [];
    walk(source.ast, (node, parents) => {
      const message = judge(node, parents, source);
      if (message !== undefined) found.push({ path: source.path, line: lineOf(node), message });
    });
    return found;
  });
}

/** The line on which a node begins. */
export function lineOf(node: Node): number {
  return node.loc?.start.line ?? 0;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

function importOf(node: Node): Pick<Import, "specifier" | "typeOnly"> | undefined {
  switch (node.type) {
    case "ImportDeclaration":
      return { specifier: node.source.value, typeOnly: node.importKind === "type" };
    case "ExportNamedDeclaration":
    case "ExportAllDeclaration":
      if (node.source == null) return undefined;
      return { specifier: node.source.value, typeOnly: node.exportKind === "type" };
    case "TSImportType":
      return node.argument.type === "StringLiteral"
        ? { specifier: node.argument.value, typeOnly: true }
        : undefined;
    case "CallExpression": {
      const [argument] = node.arguments;
      const loads =
        node.callee.type === "Import" ||
        (node.callee.type === "Identifier" && node.callee.name === "require");
      if (!loads || argument === undefined) return undefined;
      return { specifier: argument.type === "StringLiteral" ? argument.value : COMPUTED, typeOnly: false };
    }
    default:
      return undefined;
  }
}

/** Stands for a specifier that is computed at run time. */
export const COMPUTED = "(computed)";
