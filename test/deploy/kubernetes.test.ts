/**
 * deploy/kubernetes.yaml: valid by the schemas of Kubernetes and KEDA, without a word that these would not know; what it
 * starts is what the command line knows; its parts name each other rightly.
 */
import { ScaledObject as KedaScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1";
import { Deployment as AppsDeployment } from "kubernetes-models/apps/v1";
import { PersistentVolumeClaim, Service } from "kubernetes-models/v1";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { EXPECTED } from "../../src/shared/config.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";
import { readRepositoryFile } from "./repository.ts";

const Probe = z.strictObject({
  httpGet: z.strictObject({ path: z.string(), port: z.string() }),
  periodSeconds: z.int(),
  failureThreshold: z.int().optional(),
});
const Container = z.strictObject({
  name: z.string(),
  image: z.literal("subagent-queue:local"),
  args: z.array(z.string()),
  // Every setting of the program can be passed on: by the map, and what is secret by the secret.
  envFrom: z.tuple([
    z.strictObject({ secretRef: z.strictObject({ name: z.literal("subagent-queue") }) }),
    z.strictObject({
      configMapRef: z.strictObject({ name: z.literal("subagent-queue-settings"), optional: z.literal(true) }),
    }),
  ]),
  env: z.array(z.strictObject({ name: z.string(), value: z.string() })),
  ports: z.array(z.strictObject({ name: z.string(), containerPort: z.int() })),
  livenessProbe: Probe,
  readinessProbe: Probe,
  resources: z.looseObject({ limits: z.strictObject({ memory: z.string() }) }),
  securityContext: z.strictObject({
    allowPrivilegeEscalation: z.literal(false),
    readOnlyRootFilesystem: z.literal(true),
    capabilities: z.strictObject({ drop: z.tuple([z.literal("ALL")]) }),
  }),
  volumeMounts: z.array(
    z.strictObject({ name: z.string(), mountPath: z.string(), readOnly: z.literal(true).optional() }),
  ),
});
const Labels = z.record(z.string(), z.string());
const Deployment = z.strictObject({
  apiVersion: z.literal("apps/v1"),
  kind: z.literal("Deployment"),
  metadata: z.strictObject({ name: z.string() }),
  spec: z.strictObject({
    replicas: z.int().optional(),
    selector: z.strictObject({ matchLabels: Labels }),
    template: z.strictObject({
      metadata: z.strictObject({ labels: Labels }),
      spec: z.strictObject({
        terminationGracePeriodSeconds: z.int(),
        // A variable of a service named subagent-… would count as a setting that is misspelt, or be read as one.
        enableServiceLinks: z.literal(false),
        automountServiceAccountToken: z.literal(false),
        // Of a user that has a name only, Kubernetes cannot tell that it is not root, and starts no pod.
        securityContext: z.looseObject({
          runAsNonRoot: z.literal(true),
          runAsUser: z.int().positive(),
          fsGroup: z.int().positive(),
        }),
        containers: z.tuple([Container]),
        volumes: z.array(z.looseObject({ name: z.string() })),
      }),
    }),
  }),
});
const ScaledObject = z.looseObject({
  kind: z.literal("ScaledObject"),
  spec: z.looseObject({
    scaleTargetRef: z.strictObject({ name: z.string() }),
    triggers: z.array(
      z.strictObject({
        type: z.literal("redis"),
        metadata: z.strictObject({ address: z.string(), listName: z.string(), listLength: z.string() }),
      }),
    ),
  }),
});

const Document = z.looseObject({ apiVersion: z.string(), kind: z.string() });
const documents = parseAllDocuments(readRepositoryFile("deploy/kubernetes.yaml")).map((each) => {
  expect(each.errors).toEqual([]);
  return Document.parse(each.toJS());
});
const ofKind = (kind: string) => documents.filter((each) => each.kind === kind);
const deployments = ofKind("Deployment").map((each) => Deployment.parse(each));

test("each deployment selects its own pods, probes a port that it opens, and mounts volumes that it has", () => {
  expect(deployments.map(({ metadata }) => metadata.name)).toEqual([
    "subagent-queue-worker",
    "subagent-queue-api",
  ]);
  for (const { spec } of deployments) {
    const [container] = spec.template.spec.containers;
    expect(spec.template.metadata.labels).toEqual(spec.selector.matchLabels);
    const ports = container.ports.map(({ name }) => name);
    expect(ports).toContain(container.livenessProbe.httpGet.port);
    expect(container.livenessProbe.httpGet.path).toBe("/healthz");
    expect(ports).toContain(container.readinessProbe.httpGet.port);
    expect(container.readinessProbe.httpGet.path).toBe("/readyz");
    for (const { containerPort } of container.ports) expect(container.args).toContain(String(containerPort));
    const volumes = spec.template.spec.volumes.map(({ name }) => name);
    expect(volumes).toEqual(container.volumeMounts.map(({ name }) => name));
  }
});

test("only variables are set that the program reads, and a worker has the time to hand its runs over", () => {
  for (const { spec } of deployments)
    for (const { name } of spec.template.spec.containers[0].env)
      expect(Object.keys(EXPECTED)).toContain(name);
  expect(deployments[0]?.spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThan(25);
});

test("KEDA scales the workers by the keys in which jobs wait that nobody has taken", async () => {
  const scaled = ofKind("ScaledObject").map((each) => ScaledObject.parse(each));
  expect(scaled.map(({ spec }) => spec.scaleTargetRef.name)).toEqual(["subagent-queue-worker"]);
  const { bullPrefix, wakeQueue } = keysUnder();
  const watched = scaled[0]?.spec.triggers.map(({ metadata }) => metadata.listName) ?? [];
  const stage = await openStage({ redis: "own", prefix: "saq" });
  expect(watched.every((key) => key.startsWith(`${bullPrefix}:${wakeQueue}:`))).toBe(true);
  const parent = stage.parent();
  await Promise.all(["a", "b", "c"].map((name) => parent.spawn({ name })));
  await Promise.all(["a", "b", "c"].map((name) => parent.send(name, "Say hello")));
  // KEDA asks for the length of a key by its type: LLEN of a list, ZCARD of a sorted set.
  const lengthOf = async (key: string) =>
    (await stage.redis.type(key)) === "zset" ? stage.redis.zcard(key) : stage.redis.llen(key);
  const waiting = async () => (await Promise.all(watched.map(lengthOf))).reduce((sum, each) => sum + each, 0);
  await until(async () => (await waiting()) === 3, { what: "all three to be counted" });
});

/** How each kind is checked; the objects come with the packages of their schemas. */
const SCHEMAS: Readonly<Record<string, (document: never) => { validate(): void }>> = {
  "apps/v1 Deployment": (document) => new AppsDeployment(document),
  "v1 Service": (document) => new Service(document),
  "v1 PersistentVolumeClaim": (document) => new PersistentVolumeClaim(document),
  "keda.sh/v1alpha1 ScaledObject": (document) => new KedaScaledObject(document),
};
const problemOf = (document: z.infer<typeof Document>): string => {
  const schema = SCHEMAS[`${document.apiVersion} ${document.kind}`];
  if (!schema) return `there is no schema for ${document.apiVersion} ${document.kind}`;
  try {
    schema(document as never).validate();
    return "";
  } catch (error) {
    return String(error);
  }
};

test("every document is one of its kind by the schema of Kubernetes or KEDA", () => {
  expect(documents.map(problemOf)).toEqual(documents.map(() => ""));
  expect([...new Set(documents.map(({ kind }) => kind))].sort()).toEqual(
    Object.keys(SCHEMAS)
      .map((each) => each.split(" ")[1])
      .sort(),
  );
});

test("the schemas find what is wrong", () => {
  const [deployment] = ofKind("Deployment");
  const [scaled] = ofKind("ScaledObject");
  expect(problemOf({ ...deployment, spec: { replicas: "two" } } as never)).toContain("spec");
  expect(problemOf({ ...scaled, spec: { scaleTargetRef: {} } } as never)).toContain("scaleTargetRef");
  expect(problemOf({ apiVersion: "v2", kind: "Deployment" })).toContain("no schema");
});
