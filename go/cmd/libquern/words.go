package main

import "strings"

// inFields puts the fields of a model's options in the place of the names of options in Go, in what went wrong.
var inFields = strings.NewReplacer(
	"WithContextLength", "context_length", "WithParallel", "parallel", "WithQueue", "queue",
	"DeviceConfig.Threads", "threads", "WithThreads", "threads", "WithKVMemory", "kv_memory", "WithMemory", "memory",
	"WithKVTypes", "kv_types", "WithDraft", "draft", "WithAdapter", "adapters", "WithChatTemplate", "chat_template",
	"WithCache", "cache", "WithoutDownloads", "offline",
)
