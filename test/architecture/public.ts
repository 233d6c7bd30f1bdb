/** Checks that the package's entries export every type that their declarations name, so that users can name it too. */
import {
  isBlock,
  isExportSpecifier,
  isExpressionWithTypeArguments,
  isIdentifier,
  isPrivateIdentifier,
  isTypeParameterDeclaration,
  isTypeQueryNode,
  isTypeReferenceNode,
  isVariableStatement,
  type Node,
  SyntaxKind,
} from "typescript/unstable/ast";
import { type Inferred, inferredIn } from "./inferred.ts";
import { lineOf, type Source, type Violation } from "./source.ts";

/** The entries in `exports` of package.json, each with other entries from which its users can import types. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  "src/index.ts": [],
  "src/worker/index.ts": [],
  "src/service/index.ts": ["src/index.ts"],
  "src/offline/server.ts": [],
};

/** Finds this package's types that an entry's exports name but the entry does not export. */
export function findUnexportedTypes(sources: readonly Source[]): Violation[] {
  return Object.entries(ENTRIES).flatMap(([path, others]) => {
    const entry = sources.find((source) => source.path === path);
    const beside = sources.filter((source) => others.includes(source.path));
    return entry === undefined ? [] : unexportedIn(entry, beside, sources);
  });
}

/** Returns the exports of an entry: re-exports with their declaring file, and its own declarations. */
function exportedBy(entry: Source): { home: string; name: string }[] {
  const handedOn = entry.nodes.filter(isExportSpecifier).flatMap(({ name }) => entry.meaningOf(name) ?? []);
  const own = entry.file.statements.filter((statement) => /^export\b/.test(statement.getText()));
  return [...handedOn, ...own.flatMap(namesOf).map((name) => ({ home: entry.path, name }))];
}

function unexportedIn(entry: Source, beside: readonly Source[], sources: readonly Source[]): Violation[] {
  const exported = exportedBy(entry);
  const offered = new Set([entry, ...beside].flatMap(exportedBy).map(({ home, name }) => `${home}#${name}`));
  const missing = new Map<string, Violation>();
  for (const { home, name } of exported) {
    const source = sources.find(({ path }) => path === home);
    for (const statement of source?.file.statements ?? []) {
      if (source === undefined || !declares(statement, name)) continue;
      for (const { at, ...meaning } of shownBy(statement, source, sources)) {
        if (!meaning.home.startsWith("src/") || isParameter(at, meaning.name)) continue;
        const id = `${meaning.home}#${meaning.name}`;
        if (offered.has(id) || missing.has(id)) continue;
        const message = `${entry.path} exports ${name}, which names ${meaning.name}, but not ${meaning.name}`;
        missing.set(id, { path: source.path, line: lineOf(source.file, at), message });
      }
    }
  }
  return [...missing.values()];
}

/** Returns the types that a statement's declaration exposes, written or inferred. */
function shownBy(statement: Node, source: Source, sources: readonly Source[]): Inferred[] {
  const types = typesNamedIn(statement);
  source.ask(types);
  const written = types.flatMap((at) => {
    const meaning = source.meaningOf(at);
    return meaning === undefined ? [] : [{ at, ...meaning }];
  });
  return [...written, ...inferredIn(statement, source, sources, isHidden)];
}

function declares(statement: Node, name: string): boolean {
  return namesOf(statement).includes(name);
}

/** Returns the names that a statement declares. */
function namesOf(statement: Node): string[] {
  const declared: (Node | undefined)[] = isVariableStatement(statement)
    ? statement.declarationList.declarations.map(({ name }) => name)
    : "name" in statement
      ? [(statement as { name?: Node }).name]
      : [];
  return declared.flatMap((name) => (name !== undefined && isIdentifier(name) ? [name.text] : []));
}

/** Returns the nodes of type names in a statement's declaration, without bodies, initial values and private members. */
function typesNamedIn(statement: Node): Node[] {
  const named: Node[] = [];
  const visit = (node: Node): void => {
    if (isBlock(node) || isHidden(node) || isTypeQueryNode(node)) return;
    if (isTypeReferenceNode(node)) named.push(node.typeName);
    if (isExpressionWithTypeArguments(node)) named.push(node.expression);
    node.forEachChild((child) => {
      const isValue = "initializer" in node && node.initializer === child;
      if (!isValue) visit(child);
    });
  };
  visit(statement);
  return named;
}

function isHidden(node: Node): boolean {
  if ("name" in node && node.name !== undefined && isPrivateIdentifier(node.name as Node)) return true;
  const modifiers = "modifiers" in node ? (node.modifiers as readonly Node[] | undefined) : undefined;
  return modifiers?.some(({ kind }) => kind === SyntaxKind.PrivateKeyword) ?? false;
}

/** Returns whether the name is a type parameter of an enclosing declaration. */
function isParameter(type: Node, name: string): boolean {
  for (let at: Node | undefined = type; at !== undefined; at = at.parent) {
    const parameters =
      "typeParameters" in at ? (at.typeParameters as readonly Node[] | undefined) : undefined;
    if (parameters?.some((each) => isTypeParameterDeclaration(each) && each.name.text === name)) return true;
  }
  return false;
}
