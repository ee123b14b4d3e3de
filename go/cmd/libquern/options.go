package main

import (
	"encoding/json"
	"strings"

	"github.com/quern-llm/quern"
)

// options of a model that is opened, in JSON.
type options struct {
	ContextLength *int    `json:"context_length"`
	Parallel      *int    `json:"parallel"`
	Queue         *int    `json:"queue"`
	Threads       *int    `json:"threads"`
	Memory        *uint64 `json:"memory"`
	KVMemory      *uint64 `json:"kv_memory"`
	KVTypes       *struct {
		Keys   string `json:"keys"`
		Values string `json:"values"`
	} `json:"kv_types"`
	Draft    json.RawMessage `json:"draft"` // a name, or false
	Adapters []struct {
		Path  string   `json:"path"`
		Scale *float32 `json:"scale"`
	} `json:"adapters"`
	ChatTemplate *string `json:"chat_template"`
	Cache        *string `json:"cache"`
	Offline      bool    `json:"offline"`
	Device       *int64  `json:"device"` // its handle
}

// readOptions reads the options of a model and the handle of its device, 0 for one of its own; an empty text is none.
func readOptions(text string) (all []quern.Option, device int64, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, 0, nil
	}
	var o options
	if err := decode("the options", text, &o); err != nil {
		return nil, 0, err
	}
	if o.Device != nil {
		device = *o.Device
	}
	all = add(all, o.ContextLength, quern.WithContextLength)
	all = add(all, o.Parallel, quern.WithParallel)
	all = add(all, o.Queue, quern.WithQueue)
	all = add(all, o.Threads, quern.WithThreads)
	all = add(all, o.Memory, quern.WithMemory)
	all = add(all, o.KVMemory, quern.WithKVMemory)
	all = add(all, o.ChatTemplate, quern.WithChatTemplate)
	all = add(all, o.Cache, quern.WithCache)
	if t := o.KVTypes; t != nil {
		all = append(all, quern.WithKVTypes(t.Keys, t.Values))
	}
	if draft := orNil(o.Draft); draft != nil && string(draft) != "true" {
		var name string
		switch {
		case string(draft) == "false":
			all = append(all, quern.WithoutDrafts())
		case json.Unmarshal(draft, &name) != nil:
			return nil, 0, invalid("draft: %.40s, want the name of a model, or false", draft)
		default:
			all = append(all, quern.WithDraft(name))
		}
	}
	for _, a := range o.Adapters {
		scale := float32(1)
		if a.Scale != nil {
			scale = *a.Scale
		}
		all = append(all, quern.WithAdapter(a.Path, scale))
	}
	if o.Offline {
		all = append(all, quern.WithoutDownloads())
	}
	return all, device, nil
}

// readDevice reads the options of a device; an empty text is none.
func readDevice(text string) (c quern.DeviceConfig, err error) {
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	var o struct {
		Threads int    `json:"threads"`
		Memory  uint64 `json:"memory"`
		CPUs    []int  `json:"cpus"`
		NUMA    string `json:"numa"`
	}
	err = decode("the options", text, &o)
	return quern.DeviceConfig{Threads: o.Threads, Memory: o.Memory, CPUs: o.CPUs, NUMA: o.NUMA}, err
}

// add adds an option that is given.
func add[T any](all []quern.Option, value *T, with func(T) quern.Option) []quern.Option {
	if value == nil {
		return all
	}
	return append(all, with(*value))
}
