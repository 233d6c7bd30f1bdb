/**
 * One door for everything ambient: environment, time, signals, console.
 * A local name that shadows one of the globals counts as the global: nobody should have to tell them apart.
 */
import { isReferenced, type Node } from "@babel/types";
import { findNodes, type Source, type Violation } from "./source.ts";

/** `process.env`, in whatever way it is reached, outside of `src/shared/config.ts`. */
export function findEnvironmentReads(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node, parents, { path }) => {
    if (path === "src/shared/config.ts" || path.startsWith("src/offline/")) return undefined;
    const reads =
      isMember(node, "process", ["env"]) ||
      takesOut(node, "process", ["env"]) ||
      importsName(node, parents, ["process"], ["env"]);
    return reads ? "the environment is read in src/shared/config.ts only" : undefined;
  });
}

/** Clocks and timers outside of `src/shared/clock.ts`. */
export function findClocks(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node, parents, { path }) => {
    if (path === "src/shared/clock.ts" || path.startsWith("src/offline/")) return undefined;
    const uses =
      isGlobal(node, parents, ["setTimeout", "setInterval", "performance"]) ||
      isMember(node, "globalThis", ["setTimeout", "setInterval", "performance"]) ||
      isMember(node, "Date", ["now"]) ||
      isMember(node, "AbortSignal", ["timeout"]) ||
      isMember(node, "process", ["hrtime", "uptime"]) ||
      readsToday(node) ||
      importsName(node, parents, ["timers", "timers/promises"]) ||
      importsName(node, parents, ["perf_hooks"], ["performance"]) ||
      importsName(node, parents, ["process"], ["hrtime", "uptime"]);
    return uses ? "time comes from src/shared/clock.ts only" : undefined;
  });
}

/** Signal handlers outside of `src/cli/service.ts`. A computed event name could be a signal and counts as one. */
export function findSignalHandlers(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node, _parents, { path }) => {
    if (path === "src/cli/service.ts" || node.type !== "CallExpression") return undefined;
    if (!isMember(node.callee, "process", LISTENING)) return undefined;
    const [event] = node.arguments;
    if (event?.type === "StringLiteral" && !event.value.startsWith("SIG")) return undefined;
    return "signals are handled in src/cli/service.ts only";
  });
}

/** `console` outside of `src/cli`. */
export function findConsole(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node, parents, { path }) => {
    if (path.startsWith("src/cli/")) return undefined;
    const uses =
      isGlobal(node, parents, ["console"]) ||
      isMember(node, "globalThis", ["console"]) ||
      importsName(node, parents, ["console"]);
    return uses ? "only src/cli talks to the console; log or return instead" : undefined;
  });
}

const LISTENING = ["on", "once", "addListener", "prependListener", "prependOnceListener"];

/** TypeScript's own nodes that hold an expression. */
const RUNNING = new Set([
  "TSAsExpression",
  "TSSatisfiesExpression",
  "TSNonNullExpression",
  "TSTypeAssertion",
]);

/** A reference to one of these names that is not a key, a member or a declaration's own name. */
function isGlobal(node: Node, parents: readonly Node[], names: readonly string[]): boolean {
  const parent = parents.at(-1);
  if (node.type !== "Identifier" || !names.includes(node.name) || parent === undefined) return false;
  // A type such as `typeof setTimeout` runs nothing, and a member of an interface is a name of its own.
  if (parent.type.startsWith("TS") && !RUNNING.has(parent.type)) return false;
  return isReferenced(node, parent, parents.at(-2));
}

/** `object.name` or `object["name"]`, also as `globalThis.object.name`. */
function isMember(node: Node, object: string, names: readonly string[]): boolean {
  if (node.type !== "MemberExpression" && node.type !== "OptionalMemberExpression") return false;
  const name = memberName(node);
  if (name === undefined || !names.includes(name)) return false;
  return isNamed(node.object, object);
}

function isNamed(node: Node, name: string): boolean {
  if (node.type === "Identifier") return node.name === name;
  if (node.type !== "MemberExpression" && node.type !== "OptionalMemberExpression") return false;
  return memberName(node) === name && node.object.type === "Identifier" && node.object.name === "globalThis";
}

function memberName(node: Extract<Node, { property: Node; computed: boolean }>): string | undefined {
  if (!node.computed && node.property.type === "Identifier") return node.property.name;
  return node.property.type === "StringLiteral" ? node.property.value : undefined;
}

/** `const { name } = object`. */
function takesOut(node: Node, object: string, names: readonly string[]): boolean {
  if (node.type !== "VariableDeclarator" || node.id.type !== "ObjectPattern" || node.init == null)
    return false;
  if (!isNamed(node.init, object)) return false;
  return node.id.properties.some(
    (property) =>
      property.type === "ObjectProperty" &&
      property.key.type === "Identifier" &&
      names.includes(property.key.name),
  );
}

/** Without `names`: any import of the built-in module. With them: an import of one of these names from it. */
function importsName(
  node: Node,
  parents: readonly Node[],
  modules: readonly string[],
  names?: readonly string[],
): boolean {
  const declaration = names === undefined ? node : parents.at(-1);
  if (declaration?.type !== "ImportDeclaration") return false;
  if (!modules.includes(declaration.source.value.replace(/^node:/, ""))) return false;
  if (names === undefined) return true;
  if (node.type !== "ImportSpecifier") return false;
  const { imported } = node;
  return names.includes(imported.type === "Identifier" ? imported.name : imported.value);
}

/** `new Date()` and `Date()`; a Date made from a given instant is no clock. */
function readsToday(node: Node): boolean {
  if (node.type !== "NewExpression" && node.type !== "CallExpression") return false;
  if (node.callee.type !== "Identifier" || node.callee.name !== "Date") return false;
  return node.type === "CallExpression" || node.arguments.length === 0;
}
