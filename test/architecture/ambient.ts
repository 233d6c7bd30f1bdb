/**
 * Rules that give each ambient resource (environment, time, randomness, signals, console, process) one file of src.
 * They compare what a name resolves to, so an alias, an import or another spelling counts as the same resource.
 */
import {
  isBinaryExpression,
  isBindingElement,
  isCallExpression,
  isElementAccessExpression,
  isImportClause,
  isImportSpecifier,
  isNamespaceImport,
  isNewExpression,
  isParameterDeclaration,
  isPropertyAccessExpression,
  isStringLiteral,
  type Node,
  SyntaxKind,
} from "typescript/unstable/ast";
import { SymbolFlags } from "typescript/unstable/sync";
import { findUses, isInType, type Source, type Violation } from "./source.ts";

/** Finds `process.env` outside of `src/shared/config.ts`. */
export function findEnvironmentReads(sources: readonly Source[]): Violation[] {
  const elsewhere = outside(["src/shared/config.ts", "src/offline/"], sources);
  return findUses(elsewhere, ENVIRONMENT, () => "the environment is read in src/shared/config.ts only");
}

/** Finds clocks and timers outside of `src/shared/clock.ts`. */
export function findClocks(sources: readonly Source[]): Violation[] {
  const elsewhere = outside(["src/shared/clock.ts", "src/offline/"], sources);
  const message = "time comes from src/shared/clock.ts only";
  return [
    ...findUses(elsewhere, TIME, () => message),
    ...findUses(elsewhere, ["es:Date"], (node) => (isGivenInstant(node) ? undefined : message)),
  ];
}

/** Finds `keysUnder` outside of `installation.ts`, which alone composes an installation. */
export function findHandMadeInstallations(sources: readonly Source[]): Violation[] {
  const doors = ["src/shared/protocol/keys.ts", "src/shared/redis/installation.ts"];
  return findUses(outside(doors, sources), ["src/shared/protocol/keys.ts:keysUnder"], (node) =>
    isImportSpecifier(node.parent)
      ? undefined
      : "an installation is composed in src/shared/redis/installation.ts only: take its keys from openInstallation",
  );
}

/** Finds `Math.random` except as the default of a parameter: callers must be able to pass their own randomness. */
export function findChance(sources: readonly Source[]): Violation[] {
  return findUses(outside(["src/offline/"], sources), ["es:Math.random"], (node) => {
    const { parent } = whole(node);
    const isDefault =
      (isParameterDeclaration(parent) || isBindingElement(parent)) && parent.initializer === whole(node);
    return isDefault ? undefined : "chance is a parameter; Math.random is at most its default";
  });
}

/** Finds signal handlers outside of `src/cli/process.ts`. A computed event name counts as a signal, since it could be one. */
export function findSignalHandlers(sources: readonly Source[]): Violation[] {
  return findUses(outside(["src/cli/process.ts"], sources), LISTENING, (node) => {
    const call = whole(node).parent;
    const event = isCallExpression(call) ? call.arguments[0] : undefined;
    const harmless = event !== undefined && isStringLiteral(event) && !event.text.startsWith("SIG");
    return harmless ? undefined : "signals are handled in src/cli/process.ts only";
  });
}

/** Finds `console` outside of `src/cli`. */
export function findConsole(sources: readonly Source[]): Violation[] {
  const elsewhere = outside(["src/cli/"], sources);
  const members = membersOf("console", elsewhere[0]).map((name) => `node:Console.${name}`);
  return findUses(
    elsewhere,
    ["node:console", ...members],
    () => "only src/cli talks to the console; log or return instead",
  );
}

/** Returns the names of a global object's members. */
function membersOf(name: string, source: Source | undefined): string[] {
  if (source === undefined) return [];
  const { checker } = source;
  const symbol = checker.resolveName(name, SymbolFlags.Value);
  const type = symbol && checker.getTypeOfSymbol(symbol);
  return type === undefined ? [] : checker.getPropertiesOfType(type).map((member) => member.name);
}

/** Finds uses of standard streams, arguments and process exit outside of `src/cli`. */
export function findProcessUse(sources: readonly Source[]): Violation[] {
  return findUses(
    outside(["src/cli/"], sources),
    PROCESS,
    () => "the process belongs to src/cli: its streams, arguments and end",
  );
}

/** Finds `process` used as a value, and any use of `globalThis`: the rules cannot follow their members from there. */
export function findHandedOn(sources: readonly Source[]): Violation[] {
  return [
    ...findUses(sources, ["es:globalThis", "node:global"], () => "name the thing instead of `globalThis`"),
    ...findUses(sources, ["node:process"], (node) => {
      if (declares(node)) return undefined;
      const { parent } = whole(node);
      if (isPropertyAccessExpression(parent)) return undefined;
      const named = isElementAccessExpression(parent) && isStringLiteral(parent.argumentExpression);
      return named ? undefined : "`process` is asked for one thing at a time; as a value it is everything";
    }),
  ];
}

const ENVIRONMENT = ["node:Process.env", "node:Process.loadEnvFile"];
const LISTENING = ["on", "once", "addListener", "prependListener", "prependOnceListener"].map(
  (name) => `node:Process.${name}`,
);
const PROCESS = ["stdout", "stderr", "stdin", "argv", "exit", "exitCode", "abort", "chdir", "reallyExit"].map(
  (name) => `node:Process.${name}`,
);
const TIME = [
  "node:setTimeout",
  "node:setInterval",
  "node:performance",
  "node:scheduler",
  "node:Process.hrtime",
  "node:Process.uptime",
  "node:__type.timeout", // AbortSignal.timeout, whose type has no name
  "es:DateConstructor.now",
];

/** Returns the sources that are none of the doors. */
function outside(doors: readonly string[], sources: readonly Source[]): Source[] {
  const isDoor = (path: string) =>
    doors.some((door) => (door.endsWith("/") ? path.startsWith(door) : path === door));
  return sources.filter(({ path }) => !isDoor(path));
}

/** Returns whether a name that exists at run time resolves to one of `meanings`. */
export function means(node: Node, source: Source, meanings: readonly string[]): boolean {
  const meaning = source.meaningOf(node);
  return meaning !== undefined && meanings.includes(`${meaning.home}:${meaning.name}`) && !isInType(node);
}

/** Returns the node `a.name` for its `name`, or the node itself if it is not a member. */
export function whole(node: Node): Node {
  const { parent } = node;
  const member =
    (isPropertyAccessExpression(parent) && parent.name === node) ||
    (isElementAccessExpression(parent) && parent.argumentExpression === node);
  return member ? parent : node;
}

/** Returns whether the name stands in an import statement. */
export function declares({ parent }: Node): boolean {
  return isImportClause(parent) || isImportSpecifier(parent) || isNamespaceImport(parent);
}

/** Returns whether this use of `Date` reads no clock: `new Date(instant)`, `Date.parse(text)`, `x instanceof Date`. */
function isGivenInstant(node: Node): boolean {
  const { parent } = whole(node);
  if (isNewExpression(parent))
    return parent.expression === whole(node) && (parent.arguments?.length ?? 0) > 0;
  if (isBinaryExpression(parent)) return parent.operatorToken.kind === SyntaxKind.InstanceOfKeyword;
  return isPropertyAccessExpression(parent);
}
