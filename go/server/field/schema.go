package field

import (
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// SchemaOf is the schema of a value's type, or the value itself if it is a schema.
func SchemaOf(v any) Schema {
	if s, ok := v.(Schema); ok {
		return s
	}
	return typeSchema(reflect.TypeOf(v))
}

func typeSchema(t reflect.Type) Schema {
	if own, ok := reflect.Zero(t).Interface().(interface{ Schema() Schema }); ok && t.Kind() != reflect.Pointer {
		return own.Schema()
	}
	switch t.Kind() {
	case reflect.Slice:
		if t == reflect.TypeFor[jsontext.Value]() {
			return Schema{}
		}
		return Schema{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Pointer:
		return Schema{"anyOf": []Schema{typeSchema(t.Elem()), {"type": "null"}}}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": typeSchema(t.Elem())}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return Schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Struct:
		return structSchema(t)
	}
	return Schema{} // any type
}

func structSchema(t reflect.Type) Schema {
	properties := Schema{}
	required := []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner := structSchema(f.Type)
			for name, s := range inner["properties"].(Schema) {
				properties[name] = s
			}
			required = append(required, inner["required"].([]string)...)
			continue
		}
		if !f.IsExported() { // which JSON has not
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Slice && f.Type.Elem() == t { // would never end
			properties[name] = Schema{"type": "array"}
		} else {
			properties[name] = typeSchema(f.Type)
		}
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return Schema{"type": "object", "properties": properties, "required": required}
}
