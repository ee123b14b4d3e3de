// Package nn has the words that architectures are written in, one file per word: attention, feed-forward, experts,
// state spaces, hyper-connections and others, each named as its paper or the field names it.
//
// A word has two sides. Keys read its sizes from the metadata of a file into the Config, and a Builder with its Layer
// adds its operations to the Program. Both stop at the first error: ReadKeys, ReadHeadKeys and Build return it, and the
// words are called one after the other without checks.
//
// A program is built twice. First there is no memory: matrices and vectors are nil, and the program tells what the
// model needs. Then the same calls return memory. So a word asks for the same tensors in the same order both times, and
// computes from their values only if they are not nil.
//
// Sizes are columns of floats. The residual of a token is NEmbd wide. A matrix of `in` columns and `out` rows makes
// `out` columns of `in`. Comments write x for the residual.
package nn
