/**
 * Checks that the loop is pure: its results depend only on its arguments. It uses no clock, randomness, network or file,
 * neither directly nor through functions of other files, and its module-level declarations are immutable.
 */
import {
  isArrowFunction,
  isBinaryExpression,
  isCallExpression,
  isDeleteExpression,
  isElementAccessExpression,
  isExpressionStatement,
  isFunctionExpression,
  isPostfixUnaryExpression,
  isPrefixUnaryExpression,
  isPropertyAccessExpression,
  isPropertyDeclaration,
  isRegularExpressionLiteral,
  isSourceFile,
  isVariableDeclaration,
  type Node,
  SyntaxKind,
} from "typescript/unstable/ast";
import { type Checker, SignatureKind, type Type, TypeFlags } from "typescript/unstable/sync";
import { declares, means, whole } from "./ambient.ts";
import { declaredNames } from "./documented.ts";
import { findNodes, isInType, nodesOf, type Source, type Violation } from "./source.ts";

const LOOP = "src/worker/loop/";

/** Finds impure code in the loop, and names that the loop imports whose code reaches something impure. */
export function findImpure(sources: readonly Source[]): Violation[] {
  const through = reachOf(sources);
  const loop = sources.filter(({ path }) => path.startsWith(LOOP));
  for (const { ask, nodes } of loop) ask(nodes);
  return findNodes(loop, (node, source) => {
    const message = impurityOf(node, source) ?? changeableOf(node, source) ?? through(node, source);
    return message === undefined ? undefined : `${LOOP} is pure: ${message}`;
  });
}

/** Globals of the language and of Node that give the same result for the same arguments. */
const PURE = new Set([
  ...["Array", "Boolean", "JSON", "Map", "Math", "Number", "Object", "Set", "String", "BigInt"].map(
    (n) => `es:${n}`,
  ),
  ...["parseInt", "isNaN", "RegExp", "Infinity", "NaN", "undefined"].map((name) => `es:${name}`),
  ...["Buffer", "structuredClone", "TextEncoder", "createHash"].map((name) => `node:${name}`),
]);

function impurityOf(node: Node, source: Source): string | undefined {
  if (isModuleCollection(node, source)) return "a collection outlives a call; give it a read-only type";
  if (isModuleVariable(node)) return "nothing that outlives a call may change";
  if (node.kind === SyntaxKind.MetaProperty || node.kind === SyntaxKind.AwaitExpression)
    return "it waits for nothing and knows no file";
  const written = writtenBy(node, source);
  if (written !== undefined && isOfModule(written, source))
    return `${written.getText()} outlives a call, and nothing that does is written to`;
  const meaning = source.meaningOf(node);
  if (meaning === undefined || (meaning.home !== "es" && meaning.home !== "node") || isInType(node))
    return undefined;
  const key = `${meaning.home}:${meaning.name}`;
  const isPure = key !== "es:Math.random" && (meaning.name.includes(".") || PURE.has(key));
  return isPure ? undefined : `${meaning.name} comes in as a parameter, if at all`;
}

const OBJECT_WRITERS = ["assign", "defineProperty", "defineProperties", "setPrototypeOf"].map(
  (name) => `es:ObjectConstructor.${name}`,
);

/** Returns the name whose member the node writes: `a` in `a.b.c += 1`, `delete a.b` and `Object.assign(a, …)`. */
function writtenBy(node: Node, source: Source): Node | undefined {
  if (means(node, source, OBJECT_WRITERS)) {
    const { parent } = whole(node);
    return isCallExpression(parent) ? rootOf(parent.arguments[0]) : undefined;
  }
  const target = targetOf(node);
  return target && (isPropertyAccessExpression(target) || isElementAccessExpression(target))
    ? rootOf(target)
    : undefined;
}

/** Returns the operand that an assignment, `++`, `--` or `delete` changes. */
function targetOf(node: Node): Node | undefined {
  if (isBinaryExpression(node)) {
    const { kind } = node.operatorToken;
    return kind >= SyntaxKind.FirstAssignment && kind <= SyntaxKind.LastAssignment ? node.left : undefined;
  }
  if (isPostfixUnaryExpression(node)) return node.operand;
  if (isPrefixUnaryExpression(node)) return STEPS.includes(node.operator) ? node.operand : undefined;
  return isDeleteExpression(node) ? node.expression : undefined;
}

const STEPS: readonly SyntaxKind[] = [SyntaxKind.PlusPlusToken, SyntaxKind.MinusMinusToken];

function rootOf(value: Node | undefined): Node | undefined {
  let at = value;
  while (at && (isPropertyAccessExpression(at) || isElementAccessExpression(at))) at = at.expression;
  return at;
}

/** Returns whether the name is imported from another file, or declared at the top level of its own. */
function isOfModule(name: Node, source: Source): boolean {
  const home = source.meaningOf(name)?.home;
  if (home !== source.path) return home?.includes("/") === true;
  return source.file.statements.some((statement) => declaredNames(statement).includes(name.getText()));
}

/** Returns whether the node is a module-level `let` or `var`. */
function isModuleVariable(node: Node): boolean {
  if (node.kind !== SyntaxKind.VariableStatement || !isSourceFile(node.parent)) return false;
  return /^(export\s+)?(let|var)\b/.test(node.getText());
}

/** Returns whether the node is a module-level collection whose type is mutable. */
function isModuleCollection(node: Node, { checker }: Source): boolean {
  if (!isVariableDeclaration(node) || !isSourceFile(node.parent.parent.parent)) return false;
  const name = checker.getTypeAtLocation(node.name)?.getSymbol()?.name ?? "";
  return ["Array", "Map", "Set", "WeakMap", "WeakSet"].includes(name);
}

/** Returns a function that names the impure code that a name of another file reaches, over any number of files. */
function reachOf(sources: readonly Source[]): (node: Node, source: Source) => string | undefined {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const known = new Map<string, Declared>();
  const declaredAt = (node: Node, source: Source): string | undefined => {
    const meaning = source.meaningOf(node);
    const home = meaning && byPath.get(meaning.home);
    if (meaning === undefined || home === undefined || home.path.startsWith(LOOP)) return undefined;
    if (declares(node) || isInType(node)) return undefined;
    const key = `${home.path}#${meaning.name}`;
    if (!known.has(key)) known.set(key, readDeclared(meaning.name, home, declaredAt, known));
    return key;
  };
  return (node, source) => {
    const first = declaredAt(node, source);
    const reached = new Set(first === undefined ? [] : [first]);
    for (const key of reached) {
      const { impurity, uses = [] } = known.get(key) ?? {};
      if (impurity !== undefined) return `${node.getText()} reaches ${key}, where ${impurity}`;
      for (const use of uses) reached.add(use);
    }
    return undefined;
  };
}

/** A top-level declaration: its first impurity, and the declarations of other files that it uses. */
interface Declared {
  impurity?: string | undefined;
  uses?: readonly string[];
}

function readDeclared(
  name: string,
  home: Source,
  declaredAt: (node: Node, source: Source) => string | undefined,
  known: Map<string, Declared>,
): Declared {
  known.set(`${home.path}#${name}`, {});
  const nodes = home.file.statements
    .filter((statement) => declaredNames(statement).includes(name))
    .flatMap(nodesOf);
  home.ask(nodes);
  const impurity = nodes.map((node) => impurityOf(node, home)).find((said) => said !== undefined);
  return { impurity, uses: nodes.flatMap((node) => declaredAt(node, home) ?? []) };
}

/** Returns why a module-level declaration of the loop could change between two calls; undefined if it cannot. */
function changeableOf(node: Node, { checker }: Source): string | undefined {
  if (isExpressionStatement(node) && isSourceFile(node.parent)) return "a module declares, and does nothing";
  if (isPropertyDeclaration(node) && node.modifiers?.some(({ kind }) => kind === SyntaxKind.StaticKeyword))
    return "what is static outlives a call";
  if (!isVariableDeclaration(node) || !isSourceFile(node.parent.parent.parent)) return undefined;
  const { initializer } = node;
  if (initializer !== undefined) {
    if (isArrowFunction(initializer) || isFunctionExpression(initializer)) return undefined;
    // A global or sticky pattern keeps state (`lastIndex`).
    if (isRegularExpressionLiteral(initializer) && !/[gy][a-z]*$/.test(initializer.getText()))
      return undefined;
  }
  const type = checker.getTypeAtLocation(node.name);
  return type === undefined || isReadonly(type, checker)
    ? undefined
    : `${node.name.getText()} outlives a call; give it a type that is read-only throughout`;
}

const READONLY_COLLECTIONS = new Set(["ReadonlyArray", "ReadonlyMap", "ReadonlySet"]);
/** The checker's flag of a member that `as const`, `Readonly` or another mapped type made read-only. */
const READONLY_MEMBER = 8;

/** Returns whether a value of the type is deeply read-only. Functions are not, because they could hold any state. */
function isReadonly(type: Type, checker: Checker): boolean {
  if ((type.flags & TypeFlags.Primitive) !== 0) return true;
  if (type.isUnionType()) return type.getTypes().every((each) => isReadonly(each, checker));
  if (!type.isObjectType() && !type.isIntersectionType()) return false;
  const indexes = checker.getIndexInfosOfType(type);
  if (indexes.some((index) => !index.isReadonly || !isReadonly(index.valueType, checker))) return false;
  if (READONLY_COLLECTIONS.has(type.getSymbol()?.name ?? "") || checker.isTupleType(type)) {
    const held = type.isTypeReference() ? checker.getTypeArguments(type) : [];
    return held.every((each) => isReadonly(each, checker));
  }
  if (checker.getSignaturesOfType(type, SignatureKind.Call).length > 0) return false;
  return checker.getPropertiesOfType(type).every((property) => {
    const held = checker.getTypeOfSymbol(property);
    return (property.checkFlags & READONLY_MEMBER) !== 0 && held !== undefined && isReadonly(held, checker);
  });
}
