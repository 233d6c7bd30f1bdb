/** Ways around the type system and around the error catalogue. */
import type { Node } from "@babel/types";
import { findNodes, type Source, type Violation } from "./source.ts";

/** The type `any`, wherever it is written. */
export function findAny(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node) =>
    node.type === "TSAnyKeyword" ? "`any` switches the checker off" : undefined,
  );
}

/** A cast of a cast by way of `unknown`, `any` or `never`. */
export function findDoubleCasts(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node) => {
    if (!isCast(node)) return undefined;
    const inner = node.expression;
    const through = isCast(inner) ? inner.typeAnnotation.type : undefined;
    if (through === undefined || !FORGETFUL.has(through)) return undefined;
    return "a double cast claims what was never checked; parse or narrow instead";
  });
}

/** Comments that silence the compiler. */
export function findSuppressions(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, ast }) =>
    (ast.comments ?? []).flatMap(({ value, loc }) => {
      const directive = SUPPRESSIONS.find((name) => value.includes(name));
      if (directive === undefined) return [];
      return [{ path, line: loc?.start.line ?? 0, message: `${directive} hides an error; resolve it` }];
    }),
  );
}

/** `throw new Error` and `throw Error()`: an error nobody can tell from another. */
export function findBareThrows(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node) => {
    if (node.type !== "ThrowStatement") return undefined;
    const thrown = node.argument;
    if (thrown.type !== "NewExpression" && thrown.type !== "CallExpression") return undefined;
    if (thrown.callee.type !== "Identifier" || thrown.callee.name !== "Error") return undefined;
    return "a bare Error: return a closed union, or throw an error class of the catalogue";
  });
}

const FORGETFUL = new Set(["TSUnknownKeyword", "TSAnyKeyword", "TSNeverKeyword"]);
const SUPPRESSIONS = ["@ts-ignore", "@ts-expect-error", "@ts-nocheck"];

type Cast = Extract<Node, { type: "TSAsExpression" | "TSTypeAssertion" }>;

function isCast(node: Node): node is Cast {
  return node.type === "TSAsExpression" || node.type === "TSTypeAssertion";
}
