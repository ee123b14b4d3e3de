"""The world of the stories: names, kinds, things and places."""

GIRLS = """Lily Mia Anna Sue Lucy Ella Emma Zoe Rosie Nora Ruby Daisy Maya Ivy Clara Sara Molly Amy Jane Kim Tina Bella
Hana Lena Olga Nina Poppy Ada Tess Mina""".split()
BOYS = """Tim Tom Ben Max Sam Jack Leo Finn Jim Bob Noah Oscar Hugo Theo Milo Joe Adam Luke Omar Ravi Kai Otto Paul Dan
Eli Ned Gus Sven Ali Pete""".split()
PETS = """Pip Momo Biscuit Bella Spot Coco Fluffy Buddy Rex Teddy Ziggy Pepper Ollie Waffle Nibbles Bubbles Tiny Sunny
Misty Rusty Button Hazel Fizz Dot Mango Noodle Peanut Socks Bingo Tiki Willow Pickle Luna Bo Dash Tuck""".split()

KINDS = {
    "animal": """dog cat rabbit bear fox mouse duck frog bird pig cow horse lion elephant monkey owl turtle squirrel
        hedgehog bee fish crab penguin sheep goat hen goose deer mole snail butterfly kitten puppy whale tiger giraffe
        zebra otter beaver raccoon ant parrot donkey lamb bat wolf seal""".split(),
    "creature": "dragon robot fairy giant ghost snowman mermaid monster unicorn troll star cloud".split(),
    "person": """farmer baker sailor king queen prince princess knight pirate wizard gardener fisherman clown teacher
        doctor painter""".split(),
}
SEX = {"king": "he", "queen": "she", "prince": "he", "princess": "she", "hen": "she", "cow": "she", "mermaid": "she",
       "fairy": "she", "fisherman": "he", "snowman": "he"}
TRAITS = "little small kind brave happy funny clever curious shy cheerful gentle quiet busy silly".split()
ELDERS = (("mom", "she"), ("dad", "he"), ("grandma", "she"), ("grandpa", "he"), ("mom", "she"), ("dad", "he"),
          ("aunt", "she"), ("uncle", "he"))

THINGS = {
    "toy": """ball kite doll drum car train boat puzzle balloon robot truck teddy top rocket whistle plane rope
        castle yo-yo""".split(),
    "food": "apple cake cookie pie carrot pear sandwich banana cupcake muffin plum peach orange pancake".split(),
    "find": """key shell stone feather map box lamp bell hat scarf mirror coin button book rope basket umbrella spoon
        blanket ring crown leaf bottle pencil clock letter bag candle cup pot boot flute""".split(),
    "ride": "boat wagon bike truck train sled balloon car ship".split(),
    "plant": "flower tree pumpkin rose sunflower bean berry bush tomato".split(),
}
LOOKS = {
    "toy": "red blue green yellow big small shiny new old wooden round bright".split(),
    "food": "big sweet warm round fresh yummy tasty golden small soft".split(),
    "find": "shiny old golden blue red tiny strange pretty little green silver purple".split(),
    "ride": "red blue big small fast old wooden yellow white".split(),
    "plant": "tall big tiny pretty green yellow strange beautiful small".split(),
}
PLACES = {
    "outdoors": [
        ("in", "the park"), ("in", "the forest"), ("in", "the garden"), ("at", "the beach"), ("by", "the river"),
        ("by", "the lake"), ("on", "the farm"), ("on", "the hill"), ("in", "the meadow"), ("by", "the sea"),
        ("in", "the village"), ("in", "the yard"), ("by", "the pond"), ("in", "the field"), ("near", "the big tree"),
        ("by", "the old bridge"),
    ],
    "indoors": [
        ("in", "the house"), ("in", "the kitchen"), ("at", "school"), ("in", "the attic"), ("in", "the barn"),
        ("in", "the shop"), ("in", "the library"), ("in", "the castle"), ("in", "the cave"), ("in", "the bedroom"),
    ],
}
COLORS = "red blue green yellow pink purple orange white".split()
WEATHER = "sunny warm windy cold rainy bright cloudy snowy".split()
