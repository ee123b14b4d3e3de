package ask

// FindFIM is what tests call.
var FindFIM = findFIM
