package main

import "strings"

// inFields puts the fields of a model's options in the place of the names of options in Go, in what went wrong.
var inFields = strings.NewReplacer(
	"WithContextLength", "context_length", "WithParallel", "parallel", "WithQueue", "queue",
	"DeviceConfig.Threads", "threads", "DeviceConfig.CPUs", "cpus", "DeviceConfig.NUMA", "numa", "WithDevice", "device",
	"Speech.Language", "language", "Speech.Temperature", "temperature", "Speech.Audio", "audio",
	"give these to NewDevice", "give these to quern_device()", "Model.Transcribe gives it some", "a request with audio does",
	"WithThreads", "threads", "WithKVMemory", "kv_memory", "WithMemory", "memory",
	"WithKVTypes", "kv_types", "WithDraft", "draft", "WithAdapter", "adapters", "WithChatTemplate", "chat_template",
	"WithCache", "cache", "WithoutDownloads", "offline",
)
