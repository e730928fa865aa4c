// The API, as its own OpenAPI document describes it.

import { h, card, table, worded } from "../dom.js";
import { get } from "../api.js";

const COLOUR = { get: "read", post: "write", delete: "remove" };

export default async function api(room, { signal }) {
  const document = await get("/openapi.json", { signal });
  room.append(h("header", { class: "hero small" }, h("h1", {}, "API"),
    h("p", { class: "lead" }, "A program can do everything that this page does. The documents are those that the command line prints with --json, and errors have the same messages. The machine-readable description is ", h("a", { href: "/openapi.json", download: "openapi.json" }, "openapi.json"), ".")));
  const groups = new Map();
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push({ path, method, operation });
    }
  }
  const schemas = document.components?.schemas ?? {};
  for (const [tag, entries] of groups) room.append(card(tag, entries.map((entry) => describe(entry, schemas))));
}

function describe({ path, method, operation }, schemas) {
  const given = (operation.parameters ?? []).map((each) => [each.name, each.in, each.required ? "yes" : "", limits(each.schema), each.description ?? ""]);
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const kinds = (body?.oneOf ?? (body?.$ref ? [body] : [])).map((each) => schemas[each.$ref.split("/").at(-1)]);
  return h("details", { class: "operation" },
    h("summary", {}, h("code", { class: `method ${COLOUR[method]}` }, method.toUpperCase()), h("code", {}, path), h("span", {}, worded(operation.description?.split("\n")[0] ?? operation.summary))),
    given.length > 0 && table(["parameter", "in", "required", "type", ""], given, { caption: `Parameters of ${path}` }),
    kinds.map((schema) => h("div", {}, h("h3", {}, schema.title), h("p", {}, worded(schema.description)),
      table(["field", "required", "type", ""], Object.entries(schema.properties ?? {}).map(([name, property]) =>
        [name, schema.required?.includes(name) ? "yes" : "", limits(property), property.description ?? ""]), { caption: `Fields of ${schema.title}` }))));
}

// Shows text between backticks as code.

function limits(schema) {
  if (!schema) return "";
  if (schema.anyOf) return schema.anyOf.map(limits).filter((text) => text !== "null").join(" or ");
  if (schema.const) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.type === "array") return `list of ${limits(schema.items)}`;
  const range = [schema.minimum !== undefined && `from ${schema.minimum}`, schema.maximum !== undefined && `to ${schema.maximum}`].filter(Boolean).join(" ");
  return [schema.type ?? "anything", range].filter(Boolean).join(" ");
}
