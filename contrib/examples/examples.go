// Package examples is programs that use Quern from outside of its module. It has no code itself.
//
//   - complete continues a text
//   - chat is a conversation in a terminal
//   - tools has a model call Go functions
//   - typed has a model answer with Go values
//   - search finds texts by vectors, in a store of chromem-go
//   - many asks a hundred things at once
//   - models has two models on one device
//   - handler has a model inside a server of its own
package examples
