/** The types of ours that a declaration shows without writing them: those of values and answers that are inferred. */
import {
  isBlock,
  isFunctionDeclaration,
  isGetAccessorDeclaration,
  isMethodDeclaration,
  isParameterDeclaration,
  isPropertyDeclaration,
  isTypeQueryNode,
  isVariableDeclaration,
  type Node,
} from "typescript/unstable/ast";
import { type Checker, ObjectFlags, SignatureKind, type Type } from "typescript/unstable/sync";
import type { Meaning, Source } from "./source.ts";

/** A type of ours that was inferred, and where. */
export interface Inferred extends Meaning {
  at: Node;
}

/** What is inferred in a declaration, its bodies and what `isHidden` left out. */
export function inferredIn(
  statement: Node,
  { checker }: Source,
  sources: readonly Source[],
  isHidden: (node: Node) => boolean,
): Inferred[] {
  const found: Inferred[] = [];
  const seen = new Set<number>();
  const visit = (node: Node): void => {
    if (isBlock(node) || isHidden(node)) return;
    const type = inferredType(node, checker);
    if (type !== undefined) {
      for (const meaning of oursIn(type, { checker, sources, seen })) found.push({ ...meaning, at: node });
    }
    node.forEachChild((child) => {
      const isValue = "initializer" in node && node.initializer === child;
      if (!isValue) visit(child);
    });
  };
  visit(statement);
  return found;
}

/** The type of a value, or of what a function answers, that has no annotation, or one by `typeof`. */
function inferredType(node: Node, checker: Checker): Type | undefined {
  if (isTypeQueryNode(node)) return checker.getTypeFromTypeNode(node);
  if (isVariableDeclaration(node) || isPropertyDeclaration(node) || isParameterDeclaration(node))
    return node.type === undefined ? checker.getTypeAtLocation(node.name) : undefined;
  if (isFunctionDeclaration(node) || isMethodDeclaration(node) || isGetAccessorDeclaration(node)) {
    const signature = node.type === undefined ? checker.getSignatureFromDeclaration(node) : undefined;
    return signature && checker.getReturnTypeOfSignature(signature);
  }
  return undefined;
}

interface Walk {
  checker: Checker;
  sources: readonly Source[];
  /** Ids of the types that were walked. */
  seen: Set<number>;
}

/** What a declaration file would write of a type, as far as it is ours: it goes into what has no name, and no further. */
function oursIn(type: Type, walk: Walk): Meaning[] {
  const { checker, seen } = walk;
  if (seen.has(type.id)) return [];
  seen.add(type.id);
  const given = type.isTypeReference() ? checker.getTypeArguments(type) : type.getAliasTypeArguments();
  const inGiven = given.flatMap((each) => oursIn(each, walk));
  const name = type.getAliasSymbol() ?? (isNamed(type) ? type.getSymbol() : undefined);
  if (name !== undefined) {
    const home = walk.sources.find(({ file }) => file.fileName === name.declarations[0]?.path)?.path;
    return home === undefined ? inGiven : [...inGiven, { home, name: name.name }];
  }
  return [...inGiven, ...partsOf(type, checker).flatMap((each) => oursIn(each, walk))];
}

function isNamed(type: Type): boolean {
  return (
    type.isObjectType() && (type.objectFlags & (ObjectFlags.ClassOrInterface | ObjectFlags.Reference)) !== 0
  );
}

/** The types that one without a name is made of. */
function partsOf(type: Type, checker: Checker): Type[] {
  if (type.isUnionType() || type.isIntersectionType()) return [...type.getTypes()];
  if (!type.isObjectType()) return [];
  const signatures = [SignatureKind.Call, SignatureKind.Construct].flatMap((kind) =>
    checker.getSignaturesOfType(type, kind),
  );
  const values = signatures.flatMap((signature) => signature.getParameters());
  const bounds = signatures.flatMap((signature) => signature.getTypeParameters());
  return [
    ...checker.getTypeOfSymbol([...checker.getPropertiesOfType(type), ...values]),
    ...bounds.map((bound) => checker.getConstraintOfTypeParameter(bound)),
    ...checker.getIndexInfosOfType(type).map(({ valueType }) => valueType),
    ...signatures.map((signature) => checker.getReturnTypeOfSignature(signature)),
  ].filter((part) => part !== undefined);
}
