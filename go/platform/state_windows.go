package platform

import "os"

// StateFolder returns the folder of what programs of this user keep that is neither a setting nor a cache: %LOCALAPPDATA%.
func StateFolder() (string, error) { return os.UserCacheDir() }
