package launch

import (
	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
)

// A Running is an open model with the loop that runs its requests, and what they are made with.
type Running struct {
	*Model
	Loop            *engine.Loop
	Template        *chat.Template
	TemplateWarning string          // why that is not the model's own; empty: it is, or it was chosen
	Sampling        sample.Params   // the model's own
	Closing         <-chan struct{} // closed when the model is about to be closed
}

// RunningOf returns what a model of the package at the root runs with, for other packages of this module that are built on
// one. Until leave is called, the model's Close waits. That package sets it: a method would be part of what it promises.
var RunningOf func(model any) (running *Running, leave func(), err error)
