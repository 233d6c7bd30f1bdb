/**
 * Source files as the rules read them: parsed by the compiler, with imports resolved to paths of the repository and every
 * name resolved to its declaration. Rules compare the declaration of a name, never its spelling.
 */
import { posix } from "node:path";
import {
  isCallExpression,
  isExportDeclaration,
  isExternalModuleReference,
  isImportClause,
  isImportDeclaration,
  isImportEqualsDeclaration,
  isImportTypeNode,
  isLiteralTypeNode,
  isMetaProperty,
  isNewExpression,
  isPropertyAccessExpression,
  isStringLiteral,
  type Node,
  type SourceFile,
  SyntaxKind,
} from "typescript/unstable/ast";
import type { Checker, Type } from "typescript/unstable/sync";
import type { Names } from "./symbols.ts";

/** A file that the compiler reads. Paths are relative to the repository's root, with `/`. */
export interface Source extends Names {
  path: string;
  text: string;
  file: SourceFile;
  imports: readonly Import[];
  checker: Checker;
  /** Resolves an identifier, or the string in `object["name"]`, to its declaration; undefined if there is none. */
  meaningOf(node: Node): Meaning | undefined;
  /** Resolves many names at once, which is quicker than one by one. */
  ask(nodes: readonly Node[]): void;
}

/** The declaration of a name, found through imports and aliases. */
export interface Meaning {
  /** `es` (the language), `node`, a package's name, or a path of the repository. */
  home: string;
  /** The declared name, after its owner if it has one: `Process.env`, `DateConstructor.now`, `fetch`. */
  name: string;
}

/** One import, re-export, dynamic import, import type or thread entry. */
export interface Import {
  /** As written. */
  specifier: string;
  /** Path of the imported file; undefined for packages and built-in modules. */
  target: string | undefined;
  /** Whether the import is erased at run time. */
  typeOnly: boolean;
  line: number;
}

/** A place at which a file breaks a rule. */
export interface Violation {
  path: string;
  line: number;
  message: string;
}

/** Placeholder for a specifier that is computed at run time. */
export const COMPUTED = "(computed)";

/** Returns one violation for each node for which `judge` returns a message. */
export function findNodes(
  sources: readonly Source[],
  judge: (node: Node, source: Source) => string | undefined,
): Violation[] {
  return sources.flatMap((source) => judgeEach(source.nodes, source, judge));
}

/** Returns one violation for each value that resolves to one of `meanings` and for which `judge` returns a message. */
export function findUses(
  sources: readonly Source[],
  meanings: readonly string[],
  judge: (node: Node, source: Source) => string | undefined,
): Violation[] {
  return sources.flatMap((source) => judgeEach(usesIn(source, meanings), source, judge));
}

/** Returns the names outside of types that resolve to one of `meanings`, each of them `<home>:<name>`. */
export function usesIn(source: Source, meanings: readonly string[]): Node[] {
  const words = new Set(meanings.map((meaning) => meaning.split(/[.:]/).at(-1) ?? ""));
  const nodes = new Set([
    ...source.imported,
    ...[...words].flatMap((word) => source.spelled.get(word) ?? []),
  ]);
  source.ask([...nodes]);
  return [...nodes].filter((node) => {
    const meaning = source.meaningOf(node);
    return meaning !== undefined && meanings.includes(`${meaning.home}:${meaning.name}`);
  });
}

function judgeEach(
  nodes: readonly Node[],
  source: Source,
  judge: (node: Node, source: Source) => string | undefined,
): Violation[] {
  const found: Violation[] = [];
  for (const node of nodes) {
    const message = judge(node, source);
    if (message !== undefined) found.push({ path: source.path, line: lineOf(source.file, node), message });
  }
  return found;
}

/** Returns the line on which a node begins, without the comments before it. */
export function lineOf(file: SourceFile, node: Node): number {
  return lineAt(file, node.getStart(file));
}

/** Returns the line of a position, counted from 1. */
export function lineAt(file: SourceFile, position: number): number {
  const ends = LINE_ENDS.get(file) ?? [...file.text.matchAll(/\n/g)].map(({ index }) => index);
  LINE_ENDS.set(file, ends);
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ends[middle] ?? 0) < position) low = middle + 1;
    else high = middle;
  }
  return low + 1;
}

/** Positions of a file's line feeds, found once. */
const LINE_ENDS = new WeakMap<SourceFile, number[]>();

/** Returns the types of the chosen nodes of all sources, or of a part of each. They are asked for at once. */
export function typesIn<Chosen extends Node>(
  sources: readonly Source[],
  choose: (node: Node) => node is Chosen,
  partOf: (node: Chosen) => Node = (node) => node,
): { node: Chosen; type: Type; source: Source }[] {
  const chosen = sources.flatMap((source) => source.nodes.filter(choose).map((node) => ({ node, source })));
  const types = sources[0]?.checker.getTypeAtLocation(chosen.map(({ node }) => partOf(node))) ?? [];
  return chosen.flatMap((each, index) => {
    const type = types[index];
    return type === undefined || type.isErrorType() ? [] : [{ ...each, type }];
  });
}

/** Returns every node of a file or of a part of it, outermost first. Comments are not nodes. */
export function nodesOf(whole: Node): Node[] {
  const nodes: Node[] = [];
  const visit = (node: Node): void => {
    nodes.push(node);
    node.forEachChild(visit);
  };
  visit(whole);
  return nodes;
}

/** Returns whether the node is part of a type, which is erased at run time. */
export function isInType(node: Node): boolean {
  for (let at = node; at !== undefined; at = at.parent) {
    if (erases(at)) return true;
  }
  return false;
}

/** Returns whether the node is a type, or declares one. */
export function erases({ kind }: Node): boolean {
  return (
    (kind >= SyntaxKind.FirstTypeNode && kind <= SyntaxKind.LastTypeNode) ||
    kind === SyntaxKind.InterfaceDeclaration ||
    kind === SyntaxKind.TypeAliasDeclaration
  );
}

/** Returns the imports of a file. `resolve` returns the path of a specifier's file if it belongs to the repository. */
export function importsOf(
  path: string,
  nodes: readonly Node[],
  resolve: (specifier: Node) => string | undefined,
): Import[] {
  return nodes.flatMap((node) => {
    const found = importAt(node);
    if (found === undefined) return [];
    const { specifier, typeOnly } = found;
    const file = node.getSourceFile();
    if (specifier === undefined || !isStringLiteral(specifier)) {
      return [{ specifier: COMPUTED, target: undefined, typeOnly, line: lineOf(file, node) }];
    }
    const beside = specifier.text.startsWith(".")
      ? posix.join(posix.dirname(path), specifier.text)
      : undefined;
    const target = resolve(specifier) ?? beside;
    return [{ specifier: specifier.text, target, typeOnly, line: lineOf(file, node) }];
  });
}

interface Found {
  specifier: Node | undefined;
  typeOnly: boolean;
}

function importAt(node: Node): Found | undefined {
  if (isImportDeclaration(node)) {
    const clause = node.importClause;
    const typeOnly =
      clause !== undefined && isImportClause(clause) && clause.phaseModifier === SyntaxKind.TypeKeyword;
    return { specifier: node.moduleSpecifier, typeOnly };
  }
  if (isExportDeclaration(node)) {
    if (node.moduleSpecifier === undefined) return undefined;
    return { specifier: node.moduleSpecifier, typeOnly: node.isTypeOnly };
  }
  if (isImportEqualsDeclaration(node)) {
    const { moduleReference } = node;
    if (!isExternalModuleReference(moduleReference)) return undefined;
    return { specifier: moduleReference.expression, typeOnly: node.isTypeOnly };
  }
  if (isImportTypeNode(node)) {
    const { argument } = node;
    return { specifier: isLiteralTypeNode(argument) ? argument.literal : undefined, typeOnly: true };
  }
  if (isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword) {
    return { specifier: node.arguments[0], typeOnly: false };
  }
  return isNewExpression(node) ? fileBeside(node) : undefined;
}

/** Reads the file from `new URL("./thread.ts", import.meta.url)`, which names the entry of a thread or process. */
export function fileBeside(node: Node): Found | undefined {
  if (!isNewExpression(node) || node.arguments?.length !== 2) return undefined;
  const [specifier, base] = node.arguments;
  if (base === undefined || !isPropertyAccessExpression(base) || !isMetaProperty(base.expression))
    return undefined;
  const known = specifier !== undefined && isStringLiteral(specifier);
  return known && !/\.[cm]?[jt]s$/.test(specifier.text) ? undefined : { specifier, typeOnly: false };
}
