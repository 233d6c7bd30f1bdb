/**
 * Resolves the names of a file to symbols. Each question to the compiler costs a switch of processes and a piece of JSON, so
 * names are asked for in lists, and only if a rule needs them. A rule about `Math.random` needs few:
 *
 * 1. A name has the spelling of its declaration, unless an import, an export list or a module's object renames it.
 * 2. So what means `Math.random` is spelled `random`, or is imported, or is a member of an imported module's object.
 * 3. A name that a file imports and declares nowhere else in it means the import, wherever it stands by itself.
 */
import {
  type Identifier,
  isBindingElement,
  isElementAccessExpression,
  isExportSpecifier,
  isIdentifier,
  isImportClause,
  isImportEqualsDeclaration,
  isImportSpecifier,
  isNamespaceImport,
  isObjectBindingPattern,
  isPropertyAccessExpression,
  isShorthandPropertyAssignment,
  isStringLiteral,
  type Node,
  type StringLiteral,
  SyntaxKind,
} from "typescript/unstable/ast";
import type { Checker, Symbol as Named } from "typescript/unstable/sync";
import { isOwnList } from "./modules.ts";
import { erases } from "./source.ts";

/** The names of a file. Only names outside of types are listed, without those that their own declaration gives. */
export interface Names {
  /** Every node of the file, outermost first. */
  nodes: readonly Node[];
  /** The names by their spelling. */
  spelled: ReadonlyMap<string, readonly Node[]>;
  /** The names that may be spelled otherwise than what they mean. */
  imported: readonly Node[];
  /** Paths of modules, in types too. */
  modules: readonly Node[];
  /** Returns the name in an import statement that a name surely means (3.), or else the name itself. */
  standsFor(name: Node): Node;
}

/** Reads the names of a file. */
export function namesIn(file: Node): Names {
  const nodes: Node[] = [];
  const spelled = new Map<string, Node[]>();
  const modules: Node[] = [];
  const given: Identifier[] = [];
  const declared = new Set<string>();
  const visit = (node: Node, inType: boolean): void => {
    nodes.push(node);
    if (isModule(node)) modules.push(node);
    if (isIdentifier(node)) {
      if (isImported(node)) given.push(node);
      else if (isNamed(node) && !MEMBERS.has(node.parent.kind)) declared.add(node.text);
    }
    if (!inType && isName(node) && !isDeclared(node)) {
      const alike = spelled.get(node.text);
      if (alike === undefined) spelled.set(node.text, [node]);
      else alike.push(node);
    }
    const isErased = inType || erases(node);
    node.forEachChild((child) => visit(child, isErased));
  };
  visit(file, false);
  const byImport = new Map(given.filter(({ text }) => !declared.has(text)).map((node) => [node.text, node]));
  const standsFor = (name: Node) => (isIdentifier(name) && isAlone(name) && byImport.get(name.text)) || name;
  return { nodes, spelled, imported: importedAmong(given, spelled), modules, standsFor };
}

/** Returns the names that are spelled as an import, and the members of what stands for a whole module. */
function importedAmong(given: readonly Identifier[], spelled: ReadonlyMap<string, readonly Node[]>): Node[] {
  const texts = new Set([...given.map(({ text }) => text), "default"]);
  const wholes = new Set(given.filter(({ parent }) => !isImportSpecifier(parent)).map(({ text }) => text));
  const members =
    wholes.size === 0 ? [] : [...spelled.values()].flat().filter((node) => isMemberOf(node, wholes));
  return [...new Set([...[...texts].flatMap((text) => spelled.get(text) ?? []), ...members])];
}

function isMemberOf({ parent }: Node, wholes: ReadonlySet<string>): boolean {
  if (!isPropertyAccessExpression(parent) && !isElementAccessExpression(parent)) return false;
  return isIdentifier(parent.expression) && wholes.has(parent.expression.text);
}

/** The symbols of all names that were asked for so far. */
export interface Symbols {
  of(name: Node): Named | undefined;
  /** Finds the symbols of many names at once. */
  ask(names: readonly Node[]): void;
}

/**
 * Opens the symbols of a program. `{ name }` and `export { name }` resolve to the name's value, not the new key;
 * `const { name } = of` resolves to the property of `of`.
 */
export function symbolsOf(checker: Checker): Symbols {
  const symbols = new Map<Node, Named | undefined>();
  const ask = (names: readonly Node[]): void => {
    const asked = [...new Set(names)].filter((node) => isName(node) && !symbols.has(node));
    if (asked.length === 0) return;
    const found = checker.getSymbolAtLocation(asked);
    const properties = propertiesOf(asked, checker);
    asked.forEach((node, index) => {
      symbols.set(node, properties.get(node) ?? valueSymbol(node, checker) ?? found[index]);
    });
  };
  const of = (name: Node): Named | undefined => {
    if (!symbols.has(name)) ask([name]);
    return symbols.get(name);
  };
  return { of, ask };
}

/** Returns the properties that names in patterns stand for: `name` in `const { name } = of`, and not in `{ name: other }`. */
function propertiesOf(nodes: readonly Node[], checker: Checker): Map<Node, Named | undefined> {
  const bound = nodes.filter(isIdentifier).flatMap((node) => {
    const element = node.parent;
    if (!isBindingElement(element) || element.propertyName !== undefined) return [];
    return isObjectBindingPattern(element.parent) ? [{ node, pattern: element.parent }] : [];
  });
  if (bound.length === 0) return new Map();
  const patterns = [...new Set(bound.map(({ pattern }) => pattern))];
  const types = new Map(checker.getTypeAtLocation(patterns).map((type, index) => [patterns[index], type]));
  return new Map(
    bound.map(({ node, pattern }) => {
      const type = types.get(pattern);
      return [node, type && checker.getPropertyOfType(type, node.text)];
    }),
  );
}

function valueSymbol({ parent }: Node, checker: Checker): Named | undefined {
  if (isShorthandPropertyAssignment(parent)) return checker.getShorthandAssignmentValueSymbol(parent);
  if (isExportSpecifier(parent) && isOwnList(parent)) {
    return checker.getExportSpecifierLocalTargetSymbol(parent);
  }
  return undefined;
}

/** Returns whether the node is a name, the string in `object["name"]`, or a module's path. */
function isName(node: Node): node is Identifier | StringLiteral {
  return (
    isIdentifier(node) || isModule(node) || (isStringLiteral(node) && isElementAccessExpression(node.parent))
  );
}

function isModule(node: Node): boolean {
  return isStringLiteral(node) && ("moduleSpecifier" in node.parent || node.text.startsWith("."));
}

/** Returns whether the node is the name that an import statement gives. */
function isImported(node: Node): boolean {
  const { parent } = node;
  const imports =
    isImportSpecifier(parent) ||
    isImportClause(parent) ||
    isNamespaceImport(parent) ||
    isImportEqualsDeclaration(parent);
  return imports && parent.name === node;
}

/** Returns whether something is named by the node, whatever its kind. */
function isNamed(node: Node): boolean {
  const { parent } = node;
  return !isPropertyAccessExpression(parent) && "name" in parent && parent.name === node;
}

/** Returns whether the node is the name in its own declaration. A pattern's name also stands for a property. */
export function isDeclared(node: Node): node is Identifier {
  return isIdentifier(node) && DECLARATIONS.has(node.parent.kind) && isNamed(node);
}

const DECLARATIONS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.VariableDeclaration,
  SyntaxKind.Parameter,
  SyntaxKind.PropertyDeclaration,
  SyntaxKind.PropertySignature,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.MethodSignature,
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.ClassDeclaration,
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
  SyntaxKind.TypeParameter,
]);

/** Declarations whose names are members of an object and no variables. */
const MEMBERS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.PropertyDeclaration,
  SyntaxKind.PropertySignature,
  SyntaxKind.PropertyAssignment,
  SyntaxKind.ShorthandPropertyAssignment,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.MethodSignature,
]);

/** Returns whether a name is looked up in the scopes around it, and not in an object, a namespace or another module. */
function isAlone(node: Node): boolean {
  const { parent } = node;
  if (isPropertyAccessExpression(parent)) return parent.expression === node;
  if (isShorthandPropertyAssignment(parent)) return parent.name === node;
  return SCOPED.has(parent.kind) || ("initializer" in parent && parent.initializer === node);
}

/** Expressions, statements and types that name all their parts by what stands in the scopes around them. */
const SCOPED: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.ArrayLiteralExpression,
  SyntaxKind.AwaitExpression,
  SyntaxKind.BinaryExpression,
  SyntaxKind.CallExpression,
  SyntaxKind.ConditionalExpression,
  SyntaxKind.ElementAccessExpression,
  SyntaxKind.ExpressionWithTypeArguments,
  SyntaxKind.NewExpression,
  SyntaxKind.ReturnStatement,
  SyntaxKind.TemplateSpan,
  SyntaxKind.TypeReference,
]);
