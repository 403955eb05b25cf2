// Options of which a program names some members: a strict project is not warned of the others.
#include "saeta/saeta.hpp"

saeta::context_options context_with_budget() { return {.budget = 1, .memory = {.exportable_pool = true}}; }

saeta::import_options import_with_tag() { return {.upload = {.tag = "mine"}}; }
