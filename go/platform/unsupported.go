package platform

import (
	"errors"
	"fmt"
)

// unsupported is ErrUnsupported with the name of what there is not.
func unsupported(what string) error {
	return fmt.Errorf("%s has no %s: %w", Name, what, errors.ErrUnsupported)
}
