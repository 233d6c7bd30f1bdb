/**
 * A source file as the rules see it: parsed by the compiler, with its imports resolved to paths of the repository and
 * every name resolved to what it means. A rule asks what a name means, never how it is spelled.
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
import type { Checker } from "typescript/unstable/sync";

/** A TypeScript file. Paths are relative to the repository's root, with `/`. */
export interface Source {
  path: string;
  text: string;
  file: SourceFile;
  /** Every node of the file, outermost first. */
  nodes: readonly Node[];
  imports: readonly Import[];
  checker: Checker;
  /** What an identifier, or the string in `object["name"]`, stands for; undefined for what nothing declares. */
  meaningOf(node: Node): Meaning | undefined;
}

/** What a name stands for, imports and aliases followed to the declaration. */
export interface Meaning {
  /** `es` (the language), `node`, a package's name, or a path of the repository. */
  home: string;
  /** With its owner in front: `Process.env`, `DateConstructor.now`, `fetch`. */
  name: string;
}

/** One import, re-export, dynamic import, import type or thread entry. */
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

/** Stands for a specifier that is computed at run time. */
export const COMPUTED = "(computed)";

/** One violation for each node about which `judge` has something to say. */
export function findNodes(
  sources: readonly Source[],
  judge: (node: Node, source: Source) => string | undefined,
): Violation[] {
  return sources.flatMap((source) =>
    source.nodes.flatMap((node) => {
      const message = judge(node, source);
      return message === undefined ? [] : [{ path: source.path, line: lineOf(source.file, node), message }];
    }),
  );
}

/** The line on which a node begins, its comments not counted. */
export function lineOf(file: SourceFile, node: Node): number {
  return file.text.slice(0, node.getStart(file)).split("\n").length;
}

/** Every node of a file or of a part of it, outermost first; comments are no nodes. */
export function nodesOf(whole: Node): Node[] {
  const nodes: Node[] = [];
  const visit = (node: Node): void => {
    nodes.push(node);
    node.forEachChild(visit);
  };
  visit(whole);
  return nodes;
}

/** Whether the node is part of a type, of which nothing is left at run time. */
export function isInType(node: Node): boolean {
  for (let at = node; at !== undefined; at = at.parent) {
    if (at.kind >= SyntaxKind.FirstTypeNode && at.kind <= SyntaxKind.LastTypeNode) return true;
    if (at.kind === SyntaxKind.InterfaceDeclaration || at.kind === SyntaxKind.TypeAliasDeclaration)
      return true;
  }
  return false;
}

/** The imports of a file. `resolve` gives the path of the file that a specifier reaches, if it is one of ours. */
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

/** `new URL("./thread.ts", import.meta.url)`: the way in which threads and processes are given their file. */
export function fileBeside(node: Node): Found | undefined {
  if (!isNewExpression(node) || node.arguments?.length !== 2) return undefined;
  const [specifier, base] = node.arguments;
  if (base === undefined || !isPropertyAccessExpression(base) || !isMetaProperty(base.expression))
    return undefined;
  const known = specifier !== undefined && isStringLiteral(specifier);
  return known && !/\.[cm]?[jt]s$/.test(specifier.text) ? undefined : { specifier, typeOnly: false };
}
