/** Rules for loading code: only import statements load it, and only the package's entries re-export. */
import {
  isExportAssignment,
  isExportDeclaration,
  isExportSpecifier,
  isIdentifier,
  isImportSpecifier,
  isMetaProperty,
  isNewExpression,
  isPropertyAccessExpression,
  isStringLiteral,
  isTypeAliasDeclaration,
  isTypeReferenceNode,
  isVariableDeclaration,
  type Node,
  SyntaxKind,
} from "typescript/unstable/ast";
import { fileBeside, findNodes, findUses, lineOf, type Source, type Violation } from "./source.ts";

/** Files that may locate another file by `import.meta`: Lua scripts, pages, package.json, a thread's or process's entry. */
const BESIDE = [
  "src/shared/redis/lua-files.ts",
  "src/shared/package.ts",
  "src/cli/local/embedded-redis.ts",
  "src/worker/tools/search/process-pool.ts",
  "src/worker/health/watchdog.ts",
];

/** The entries of the package: they may re-export names of other files. */
const PACKAGE_DOORS = [
  "src/index.ts",
  "src/worker/index.ts",
  "src/service/index.ts",
  "src/offline/server.ts",
];

/** Finds code that is loaded or created without an import statement. */
export function findHiddenLoads(sources: readonly Source[]): Violation[] {
  const loaded = findUses(
    sources,
    LOADERS,
    () => "code comes in by an import statement; this loads it past every rule",
  );
  const threads = findUses(sources, ["node:Worker"], (node) =>
    isImportSpecifier(node.parent) || isFileThread(node)
      ? undefined
      : "a thread is given `new URL(…, import.meta.url)`, and neither a text nor a name",
  );
  const found = findNodes(sources, (node, source) => {
    if (isNamedConstructor(node)) return "the constructor of a function makes code of a text";
    if (!isMetaProperty(node) || node.keywordToken !== SyntaxKind.ImportKeyword) return undefined;
    return BESIDE.includes(source.path)
      ? undefined
      : "`import.meta` finds files; the files that may are listed";
  });
  return [...loaded, ...threads, ...found];
}

/** Finds names that a file re-exports from another file, which would bypass the owner's door. */
export function findReExports(sources: readonly Source[]): Violation[] {
  return sources.flatMap((source) => {
    if (PACKAGE_DOORS.includes(source.path)) return [];
    return source.nodes.flatMap((node) => {
      const name = handedOn(node, source);
      if (name === undefined) return [];
      const message = `${name} is declared elsewhere and is imported from there; only ${PACKAGE_DOORS.join(" and ")} re-export`;
      return [{ path: source.path, line: lineOf(source.file, node), message }];
    });
  });
}

/** Finds `export *` and default exports: other rules need a name to check them. */
export function findNamelessExports(sources: readonly Source[]): Violation[] {
  return findNodes(sources, (node) => {
    const isAll = isExportDeclaration(node) && node.exportClause === undefined;
    const isDefault =
      isExportAssignment(node) ||
      node.kind === SyntaxKind.DefaultKeyword ||
      (isExportSpecifier(node) && node.name.getText() === "default");
    return isAll || isDefault ? "what is exported has a name" : undefined;
  });
}

const LOADERS = [
  "es:eval",
  "es:Function",
  "node:require",
  "node:module",
  "node:createRequire",
  "node:Module.createRequire",
  "node:register",
  "node:registerHooks",
  "node:Process.getBuiltinModule",
  "node:Process.binding",
  "node:Process.dlopen",
  "node:ImportMeta.resolve",
];

/** Returns whether `constructor` is used as a member name; a class's own constructor is not. */
function isNamedConstructor(node: Node): boolean {
  return (isIdentifier(node) || isStringLiteral(node)) && node.text === "constructor";
}

/** Returns whether this is `new Worker(new URL(…))`, whose file `importsOf` reads. */
function isFileThread(node: Node): boolean {
  const whole = isPropertyAccessExpression(node.parent) ? node.parent : node;
  const made = whole.parent;
  if (!isNewExpression(made) || made.expression !== whole) return false;
  const entry = made.arguments?.[0];
  return entry !== undefined && fileBeside(entry) !== undefined;
}

function handedOn(node: Node, source: Source): string | undefined {
  if (isExportDeclaration(node) && node.moduleSpecifier !== undefined) return node.moduleSpecifier.getText();
  if (isExportSpecifier(node) && isOwnList(node)) {
    return foreign(node.propertyName ?? node.name, source);
  }
  if (isExportAssignment(node)) {
    return isIdentifier(node.expression) ? foreign(node.expression, source) : undefined;
  }
  if (isVariableDeclaration(node) && node.parent.parent.parent.kind === SyntaxKind.SourceFile) {
    const given =
      node.initializer !== undefined && isIdentifier(node.initializer) ? node.initializer : undefined;
    return given && isExported(node.parent.parent) ? foreign(given, source) : undefined;
  }
  if (isTypeAliasDeclaration(node) && isExported(node) && isTypeReferenceNode(node.type)) {
    return node.type.typeArguments === undefined ? foreign(node.type.typeName, source) : undefined;
  }
  return undefined;
}

/** Returns the name if another file or a package declares it; undefined for names of the language. */
function foreign(name: Node, source: Source): string | undefined {
  const home = source.meaningOf(name)?.home;
  return home === undefined || home === source.path || home === "es" ? undefined : name.getText();
}

/** Returns whether `export { … }` lists names of this file and has no `from`. */
export function isOwnList(specifier: Node): boolean {
  const statement = specifier.parent.parent;
  return isExportDeclaration(statement) && statement.moduleSpecifier === undefined;
}

function isExported(statement: Node): boolean {
  return /^export\b/.test(statement.getText());
}
