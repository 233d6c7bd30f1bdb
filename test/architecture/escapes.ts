/** Finds code that bypasses the type system or the error catalogue. */
import {
  type AsExpression,
  type AwaitExpression,
  type CallExpression,
  type Identifier,
  isAsExpression,
  isAwaitExpression,
  isBinaryExpression,
  isBindingElement,
  isBindingPattern,
  isCallExpression,
  isExpressionStatement,
  isExpressionWithTypeArguments,
  isIdentifier,
  isImportSpecifier,
  isNewExpression,
  isThrowStatement,
  isTypeAssertion,
  isTypeOfExpression,
  isVariableDeclaration,
  type Node,
  SyntaxKind,
  type TypeAssertion,
} from "typescript/unstable/ast";
import { type Checker, type Type, TypeFlags } from "typescript/unstable/sync";
import { whole } from "./ambient.ts";
import { findNodes, findUses, lineOf, type Source, typesIn, type Violation } from "./source.ts";

/** Files that may declare error classes. */
const CATALOGUES = ["src/shared/errors.ts", "src/worker/model/anthropic/failure.ts"];

/** Finds the type `any`, written or inferred for a variable. Parameters of a package's callbacks are not checked. */
export function findAny(sources: readonly Source[]): Violation[] {
  const written = findNodes(sources, (node) =>
    node.kind === SyntaxKind.AnyKeyword ? "`any` switches the checker off" : undefined,
  );
  const inferred = typesIn(sources, isDeclaredName).flatMap(({ node, type, source }) => {
    if ((type.flags & TypeFlags.Any) === 0) return [];
    const message = `${node.getText()} is inferred as any`;
    return [{ path: source.path, line: lineOf(source.file, node), message }];
  });
  const lines = new Set(written.map(({ path, line }) => `${path}:${line}`));
  return [...written, ...inferred.filter(({ path, line }) => !lines.has(`${path}:${line}`))];
}

/** Finds casts from a type without information: `unknown`, `any`, `never` or `object`, also over several statements. */
export function findCastsFromUnknown(sources: readonly Source[]): Violation[] {
  return typesIn(sources, isClaim, ({ expression }) => expression).flatMap(({ node, type, source }) => {
    if ((type.flags & FORGETFUL) === 0) return [];
    const message = "a cast from unknown claims what was never checked; parse or narrow instead";
    return [{ path: source.path, line: lineOf(source.file, node), message }];
  });
}

/** Finds calls that return `any` (`JSON.parse`, `Reflect.get`) and are used as a narrower type without a check. */
export function findClaimedAny(sources: readonly Source[]): Violation[] {
  const isAny = anyFinder();
  return typesIn(sources, isCall).flatMap(({ node, type, source: { path, file, checker } }) => {
    if (!isAny(type, checker)) return [];
    if (isExpressionStatement(node.parent) || isTypeOfExpression(node.parent)) return [];
    // A promise's value is checked at its `await`.
    if ((type.flags & TypeFlags.Any) === 0 && isAwaitExpression(node.parent)) return [];
    // A parameter may have the type any, as `String`'s has; anywhere else any is inferred from an unchecked value.
    const harmless = isArgument(node) ? TypeFlags.AnyOrUnknown : TypeFlags.Unknown;
    const taken = checker.getContextualType(node);
    if (taken !== undefined && (taken.flags & harmless) !== 0) return [];
    const message = `${node.getText()} is any and taken for what was never checked; parse or narrow it from unknown`;
    return [{ path, line: lineOf(file, node), message }];
  });
}

/** Finds `JSON.parse` passed as a value: the function that calls it would use the result unchecked. */
export function findHandedParsers(sources: readonly Source[]): Violation[] {
  return findUses(sources, ["es:JSON.parse"], (node) => {
    const { parent } = whole(node);
    return isCallExpression(parent) && parent.expression === whole(node)
      ? undefined
      : "JSON.parse is called where its answer is read, and not handed on";
  });
}

/** Finds comments that silence the compiler. */
export function findSuppressions(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, text, file, nodes }) => {
    const literals = nodes
      .filter(({ kind }) => LITERALS.has(kind))
      .map((node) => [node.getStart(file), node.end]);
    return [...text.matchAll(/@ts-(ignore|expect-error|nocheck)/g)].flatMap((match) => {
      const inLiteral = literals.some(([from = 0, to = 0]) => match.index >= from && match.index < to);
      if (inLiteral) return [];
      const line = text.slice(0, match.index).split("\n").length;
      return [{ path, line, message: `${match[0]} hides an error; resolve it` }];
    });
  });
}

/** Finds creations of built-in errors, which callers cannot distinguish. `instanceof Error` is allowed. */
export function findBareErrors(sources: readonly Source[]): Violation[] {
  const thrown = findNodes(sources, (node) =>
    isThrowStatement(node) && isPlainValue(node.expression) ? "only an error is thrown" : undefined,
  );
  const made = findUses(sources, BARE, (node, source) => {
    const { parent } = node;
    if (isImportSpecifier(parent)) return undefined;
    if (isBinaryExpression(parent) && parent.operatorToken.kind === SyntaxKind.InstanceOfKeyword)
      return undefined;
    if (isExpressionWithTypeArguments(parent)) {
      return CATALOGUES.includes(source.path)
        ? undefined
        : `error classes are declared in ${CATALOGUES.join(" or ")}`;
    }
    return `a bare ${node.getText()}: return a closed union, or throw an error class of the catalogue`;
  });
  return [...thrown, ...made];
}

const FORGETFUL = TypeFlags.Unknown | TypeFlags.Any | TypeFlags.Never | TypeFlags.NonPrimitive;
const LITERALS = new Set([
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateHead,
  SyntaxKind.TemplateMiddle,
  SyntaxKind.TemplateTail,
  SyntaxKind.RegularExpressionLiteral,
]);
const BARE = [
  ...["Error", "TypeError", "RangeError", "SyntaxError", "EvalError", "ReferenceError", "URIError"],
  "AggregateError",
].map((name) => `es:${name}`);

/** Returns whether the node is a cast that asserts a type; `as const`, `as unknown` and `as any` do not. */
function isClaim(node: Node): node is AsExpression | TypeAssertion {
  if (!isAsExpression(node) && !isTypeAssertion(node)) return false;
  const { type } = node;
  const isNone = type.kind === SyntaxKind.UnknownKeyword || type.kind === SyntaxKind.AnyKeyword;
  return !isNone && type.getText() !== "const";
}

function isCall(node: Node): node is CallExpression | AwaitExpression {
  return isCallExpression(node) || isAwaitExpression(node);
}

/** Returns a function that finds out whether a type is `any` or a promise of it, each type once. */
function anyFinder(): (type: Type, checker: Checker) => boolean {
  const known = new Map<number, boolean>();
  return (type, checker) => {
    const found = known.get(type.id) ?? isAny(type, checker);
    known.set(type.id, found);
    return found;
  };
}

function isAny(type: Type, checker: Checker): boolean {
  if ((type.flags & TypeFlags.Any) !== 0) return true;
  if (type.getSymbol()?.name !== "Promise" || !type.isTypeReference()) return false;
  return checker.getTypeArguments(type).some(({ flags }) => (flags & TypeFlags.Any) !== 0);
}

function isArgument({ parent }: Node): boolean {
  return isCallExpression(parent) || isNewExpression(parent);
}

function isDeclaredName(node: Node): node is Identifier {
  if (!isIdentifier(node)) return false;
  const { parent } = node;
  if (!(isVariableDeclaration(parent) || isBindingElement(parent)) || parent.name !== node) return false;
  let at: Node = parent;
  while (isBindingElement(at) || isBindingPattern(at)) at = at.parent;
  return isVariableDeclaration(at);
}

function isPlainValue({ kind }: Node): boolean {
  return (
    kind === SyntaxKind.StringLiteral || kind === SyntaxKind.ObjectLiteralExpression || LITERALS.has(kind)
  );
}
