package jsonschema

import "strings"

// What a schema itself may be, by the keywords of each draft: the metaschemas to which other schemas refer. A reference to
// one is the only one that leads out of a document. Titles and defaults are left out; that of 2020-12 is one document here,
// without its parts for each vocabulary.

const values7 = `"title":{"type":"string"},"description":{"type":"string"},"default":true,
		"readOnly":{"type":"boolean"},"writeOnly":{"type":"boolean"},
	"examples":{"type":"array","items":true},"multipleOf":{"type":"number","exclusiveMinimum":0},
		"maximum":{"type":"number"},"exclusiveMaximum":{"type":"number"},
	"minimum":{"type":"number"},"exclusiveMinimum":{"type":"number"},"maxLength":COUNT,"minLength":COUNT,
		"pattern":{"type":"string","format":"regex"},
	"maxItems":COUNT,"minItems":COUNT,"uniqueItems":{"type":"boolean"},"maxProperties":COUNT,
		"minProperties":COUNT,"required":NAMES,
	"const":true,"enum":{"type":"array","items":true},"type":{"anyOf":[TYPE,{"type":"array","items":TYPE,
		"minItems":1,"uniqueItems":true}]},
	"format":{"type":"string"},"contentMediaType":{"type":"string"},"contentEncoding":{"type":"string"},
	"not":SCHEMA,"if":SCHEMA,"then":SCHEMA,"else":SCHEMA,"allOf":LIST,"anyOf":LIST,"oneOf":LIST,"contains":SCHEMA,
		"propertyNames":SCHEMA,
	"properties":MAP,"additionalProperties":SCHEMA,"patternProperties":{"type":"object",
		"additionalProperties":SCHEMA,"propertyNames":{"format":"regex"}}`

const types = `{"enum":["array","boolean","integer","null","number","object","string"]}`

const draft7 = `{"$schema":"http://json-schema.org/draft-07/schema#",
		"$id":"http://json-schema.org/draft-07/schema#","type":["object","boolean"],
	"definitions":{"schemaArray":{"type":"array","minItems":1,"items":SCHEMA},
		"nonNegativeInteger":{"type":"integer","minimum":0},
		"nonNegativeIntegerDefault0":{"allOf":[COUNT]},"simpleTypes":` + types + `,"stringArray":{"type":"array",
		"items":{"type":"string"},"uniqueItems":true}},
	"properties":{"$id":{"type":"string","format":"uri-reference"},"$schema":{"type":"string","format":"uri"},
		"$ref":{"type":"string","format":"uri-reference"},
		"$comment":{"type":"string"},` + values7 + `,"items":{"anyOf":[SCHEMA,LIST]},"additionalItems":SCHEMA,
		"definitions":MAP,
		"dependencies":{"type":"object","additionalProperties":{"anyOf":[SCHEMA,NAMES]}}}}`

const draft4 = `{"$schema":"http://json-schema.org/draft-04/schema#",
		"id":"http://json-schema.org/draft-04/schema#","type":"object",
	"definitions":{"schemaArray":{"type":"array","minItems":1,"items":SCHEMA},"positiveInteger":{"type":"integer",
		"minimum":0},
		"positiveIntegerDefault0":{"allOf":[COUNT]},"simpleTypes":` + types + `,"stringArray":{"type":"array",
		"items":{"type":"string"},"minItems":1,"uniqueItems":true}},
	"properties":{"id":{"type":"string"},"$schema":{"type":"string"},"title":{"type":"string"},
		"description":{"type":"string"},"default":{},
		"multipleOf":{"type":"number","minimum":0,"exclusiveMinimum":true},"maximum":{"type":"number"},
		"exclusiveMaximum":{"type":"boolean"},
		"minimum":{"type":"number"},"exclusiveMinimum":{"type":"boolean"},"maxLength":COUNT,"minLength":COUNT,
		"pattern":{"type":"string","format":"regex"},
		"additionalItems":{"anyOf":[{"type":"boolean"},SCHEMA]},"items":{"anyOf":[SCHEMA,LIST]},"maxItems":COUNT,
		"minItems":COUNT,"uniqueItems":{"type":"boolean"},
		"maxProperties":COUNT,"minProperties":COUNT,"required":NAMES,
		"additionalProperties":{"anyOf":[{"type":"boolean"},SCHEMA]},
		"definitions":MAP,"properties":MAP,"patternProperties":MAP,"dependencies":{"type":"object",
		"additionalProperties":{"anyOf":[SCHEMA,NAMES]}},
		"enum":{"type":"array","minItems":1,"uniqueItems":true},"type":{"anyOf":[TYPE,{"type":"array","items":TYPE,
		"minItems":1,"uniqueItems":true}]},
		"format":{"type":"string"},"allOf":LIST,"anyOf":LIST,"oneOf":LIST,"not":SCHEMA},
	"dependencies":{"exclusiveMaximum":["maximum"],"exclusiveMinimum":["minimum"]}}`

const draft2020 = `{"$schema":"https://json-schema.org/draft/2020-12/schema",
		"$id":"https://json-schema.org/draft/2020-12/schema","$dynamicAnchor":"meta",
	"type":["object","boolean"],
	"$defs":{"schemaArray":{"type":"array","minItems":1,"items":SCHEMA},"nonNegativeInteger":{"type":"integer",
		"minimum":0},"simpleTypes":` + types + `,
		"stringArray":{"type":"array","items":{"type":"string"},"uniqueItems":true},"anchor":{"type":"string",
		"pattern":"^[A-Za-z_][-A-Za-z0-9._]*$"}},
	"properties":{"$id":{"type":"string","format":"uri-reference","pattern":"^[^#]*#?$"},
		"$schema":{"type":"string","format":"uri"},
		"$ref":{"type":"string","format":"uri-reference"},"$anchor":{"$ref":"#/$defs/anchor"},
		"$dynamicRef":{"type":"string","format":"uri-reference"},
		"$dynamicAnchor":{"$ref":"#/$defs/anchor"},"$vocabulary":{"type":"object","propertyNames":{"format":"uri"},
		"additionalProperties":{"type":"boolean"}},
		"$comment":{"type":"string"},"$defs":MAP,"deprecated":{"type":"boolean"},` + values7 + `,"prefixItems":LIST,
		"items":SCHEMA,
		"unevaluatedItems":SCHEMA,"unevaluatedProperties":SCHEMA,"maxContains":COUNT,"minContains":COUNT,
		"dependentSchemas":MAP,
		"dependentRequired":{"type":"object","additionalProperties":NAMES},"contentSchema":SCHEMA,
		"definitions":MAP,"dependencies":{"type":"object","additionalProperties":{"anyOf":[SCHEMA,NAMES]}},
		"$recursiveRef":{"type":"string"},"$recursiveAnchor":{"type":"boolean"}}}`

// spelled writes out the words of a metaschema that stand for schemas.
func spelled(text, at, schema, count string) string {
	ref := func(name string) string { return `{"$ref":"#/` + at + "/" + name + `"}` }
	return strings.NewReplacer("SCHEMA", schema, "MAP", `{"type":"object","additionalProperties":`+schema+`}`,
		"COUNT", ref(count), "NAMES", ref("stringArray"), "LIST", ref("schemaArray"), "TYPE", ref("simpleTypes")).Replace(text)
}

// metaschemas are by URI.
var metaschemas = map[string]string{
	"http://json-schema.org/draft-04/schema":       spelled(draft4, "definitions", `{"$ref":"#"}`, "positiveInteger"),
	"http://json-schema.org/draft-06/schema":       strings.ReplaceAll(spelled(draft7, "definitions", `{"$ref":"#"}`, "nonNegativeInteger"), "draft-07", "draft-06"),
	"http://json-schema.org/draft-07/schema":       spelled(draft7, "definitions", `{"$ref":"#"}`, "nonNegativeInteger"),
	"https://json-schema.org/draft/2020-12/schema": spelled(draft2020, "$defs", `{"$dynamicRef":"#meta"}`, "nonNegativeInteger"),
}
