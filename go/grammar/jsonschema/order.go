package jsonschema

import "slices"

// sureOrders is how many orders the members of a schema have to have together until one that is sorted is no chance.
const sureOrders = 100

// sorted reports whether a program has sorted a schema, as many do that keep objects in maps: all names in all of its objects
// are in order, and there are enough members for that to say something. The order of its members is no author's then.
func sorted(root *value) bool {
	orders := 1
	var walk func(v *value, members bool) bool
	walk = func(v *value, members bool) bool {
		if !slices.IsSorted(v.names) {
			return false
		}
		if members {
			for n := 2; n <= len(v.names) && orders < sureOrders; n++ {
				orders *= n
			}
		}
		for i, item := range v.items {
			if !walk(item, v.kind == '{' && v.names[i] == "properties") {
				return false
			}
		}
		return true
	}
	return walk(root, false) && orders >= sureOrders
}
