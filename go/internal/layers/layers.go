// Package layers checks the direction of the imports. It has no code.
package layers
